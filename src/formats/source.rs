//! The bytes of one input: opened once, unpacked, hashed, and read again as often as needed.
//!
//! A plain file is read in place. Standard input, pipes, gzip and zip are unpacked into an unlinked temporary file
//! (mode 0600), so that every later scan is a plain read. Nothing here knows text or CSV.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::Crc;
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::error::ReportError;

/// No report is larger than this, unpacked.
const BYTES_MAX: u64 = 64 << 30;
/// A packed file may grow this much; a report of equal lines reaches about 100.
const RATIO_MAX: u64 = 250;
/// Below this size the ratio is not looked at.
const RATIO_FREE_BYTES: u64 = 16 << 20;
const CHUNK: usize = 256 << 10;

/// One input whose bytes have been seen once.
#[derive(Debug)]
pub(super) struct Source {
    /// File name without its folder.
    pub(super) name: String,
    file: File,
    /// Bytes, unpacked.
    pub(super) bytes: u64,
    /// SHA-256 of the unpacked bytes, hex; empty where nobody asks for it.
    pub(super) sha256: String,
    /// A cheap check that a later scan reads the same bytes.
    crc: u32,
}

impl Source {
    /// Opens a path, `-` being standard input, and reads it through once.
    pub(super) fn open(path: &Path) -> Result<Self, ReportError> {
        Self::look(path, Some(Sha256::new()))
    }

    /// The same for a file whose name in the world does not matter.
    pub(super) fn open_unnamed(path: &Path) -> Result<Self, ReportError> {
        Self::look(path, None)
    }

    fn look(path: &Path, mut sha: Option<Sha256>) -> Result<Self, ReportError> {
        let (name, file) = if path == Path::new("-") {
            let name = "standard input".to_owned();
            let file = spool(&name, io::stdin().lock(), None)?;
            (name, file)
        } else {
            open_file(path)?
        };
        let file = unpack(&name, file)?;
        let mut source = Self { name, file, bytes: 0, sha256: String::new(), crc: 0 };
        let (mut crc, mut chunk) = (Crc::new(), vec![0; CHUNK]);
        loop {
            let read = source.file.read_at(&mut chunk, source.bytes).map_err(|e| unreadable(&source.name, e))?;
            if read == 0 {
                break;
            }
            if let Some(sha) = &mut sha {
                sha.update(&chunk[..read]);
            }
            crc.update(&chunk[..read]);
            source.bytes += read as u64;
            if source.bytes > BYTES_MAX {
                return Err(too_large(&source.name));
            }
        }
        source.sha256 = sha.map_or_else(String::new, |sha| hex(&sha.finalize()));
        source.crc = crc.sum();
        Ok(source)
    }

    /// The first bytes, for a look at the encoding.
    pub(super) fn head(&self) -> Result<[u8; 4], ReportError> {
        let mut head = [0; 4];
        self.file.read_at(&mut head, 0).map_err(|e| unreadable(&self.name, e))?;
        Ok(head)
    }

    /// Whether all of it is UTF-8.
    pub(super) fn is_utf8(&self) -> Result<bool, ReportError> {
        let (mut chunk, mut kept, mut at) = (vec![0; CHUNK], 0, 0);
        loop {
            let read = self.file.read_at(&mut chunk[kept..], at).map_err(|e| unreadable(&self.name, e))?;
            at += read as u64;
            let filled = kept + read;
            match std::str::from_utf8(&chunk[..filled]) {
                Ok(_) => kept = 0,
                // A character that goes on in the next chunk.
                Err(error) if error.error_len().is_none() && read > 0 => {
                    chunk.copy_within(error.valid_up_to()..filled, 0);
                    kept = filled - error.valid_up_to();
                }
                Err(_) => return Ok(false),
            }
            if read == 0 {
                return Ok(true);
            }
        }
    }

    /// Reads from the beginning. At the end the bytes are compared with those of the first look.
    pub(super) fn reader(&self) -> Bytes<'_> {
        Bytes { source: self, at: 0, crc: Crc::new() }
    }
}

/// A reader over a [`Source`].
pub(super) struct Bytes<'a> {
    source: &'a Source,
    at: u64,
    crc: Crc,
}

/// Marks the I/O error of a file that is not what it was.
#[derive(Debug, thiserror::Error)]
#[error("the bytes are not those of the first look")]
pub(super) struct ChangedBytes;

impl Read for Bytes<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let read = self.source.file.read_at(out, self.at)?;
        self.at += read as u64;
        self.crc.update(&out[..read]);
        let too_long = self.at > self.source.bytes;
        let at_end = read == 0;
        if too_long || (at_end && (self.at < self.source.bytes || self.crc.sum() != self.source.crc)) {
            return Err(io::Error::other(ChangedBytes));
        }
        Ok(read)
    }
}

fn open_file(path: &Path) -> Result<(String, File), ReportError> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ReportError::NoSuchFile(shown.clone()),
        _ => unreadable(&shown, e),
    })?;
    let meta = file.metadata().map_err(|e| unreadable(&shown, e))?;
    if meta.is_dir() {
        return Err(ReportError::Directory(shown));
    }
    let name = path.file_name().map_or(shown, |n| n.to_string_lossy().into_owned());
    let file = if meta.is_file() { file } else { spool(&name, file, None)? };
    Ok((name, file))
}

/// By the magic number, never by the name.
fn unpack(name: &str, mut file: File) -> Result<File, ReportError> {
    let mut magic = [0; 4];
    let read = file.read_at(&mut magic, 0).map_err(|e| unreadable(name, e))?;
    let packed_bytes = file.metadata().map_err(|e| unreadable(name, e))?.len();
    match &magic[..read] {
        [0x1f, 0x8b, ..] => {
            file.seek(SeekFrom::Start(0)).map_err(|e| unreadable(name, e))?;
            spool(name, MultiGzDecoder::new(io::BufReader::new(file)), Some(packed_bytes))
        }
        [b'P', b'K', 3 | 5, _] => unzip(name, file, packed_bytes),
        _ => Ok(file),
    }
}

fn unzip(name: &str, file: File, packed_bytes: u64) -> Result<File, ReportError> {
    let packed = |reason: String| ReportError::Packed { name: name.to_owned(), reason };
    let mut archive =
        zip::ZipArchive::new(io::BufReader::new(file)).map_err(|e| packed(format!("damaged zip file: {e}")))?;
    if archive.file_names().any(|n| n == "[Content_Types].xml") {
        return Err(packed("it is a spreadsheet (xlsx): download the report as CSV".to_owned()));
    }
    let members: Vec<String> =
        archive.file_names().filter(|n| !n.ends_with('/') && !n.starts_with("__MACOSX/")).map(str::to_owned).collect();
    let [member] = members.as_slice() else {
        return Err(packed(format!("the zip file must hold exactly one file, it holds {}", members.len())));
    };
    let member = archive.by_name(member).map_err(|e| packed(format!("damaged zip file: {e}")))?;
    spool(name, member, Some(packed_bytes))
}

/// Copies everything into an unlinked temporary file, within the bounds.
fn spool(name: &str, mut input: impl Read, packed_bytes: Option<u64>) -> Result<File, ReportError> {
    let no_space = |source| unreadable(&format!("{name} (its temporary copy)"), source);
    let mut file = tempfile::tempfile().map_err(no_space)?;
    let (mut total, mut chunk) = (0_u64, vec![0; CHUNK]);
    loop {
        let read = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if packed_bytes.is_some() => {
                let reason = format!("damaged or cut off after {total} bytes: {e}");
                return Err(ReportError::Packed { name: name.to_owned(), reason });
            }
            Err(e) => return Err(unreadable(name, e)),
        };
        total += read as u64;
        let bomb = packed_bytes.is_some_and(|packed| total > RATIO_FREE_BYTES && total / RATIO_MAX > packed);
        if bomb {
            let reason = format!("it grows more than {RATIO_MAX} times, no report does");
            return Err(ReportError::Packed { name: name.to_owned(), reason });
        }
        if total > BYTES_MAX {
            return Err(too_large(name));
        }
        file.write_all(&chunk[..read]).map_err(no_space)?;
    }
    Ok(file)
}

fn unreadable(name: &str, source: io::Error) -> ReportError {
    ReportError::Unreadable { name: name.to_owned(), source }
}

fn too_large(name: &str) -> ReportError {
    ReportError::Packed { name: name.to_owned(), reason: format!("it is larger than {BYTES_MAX} bytes") }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[u8] = b"a,b\n1,2\n";

    fn written(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn zipped(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut packer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for (name, bytes) in members {
            packer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            packer.write_all(bytes).unwrap();
        }
        packer.finish().unwrap().into_inner()
    }

    #[test]
    fn packed_and_plain_files_have_one_identity_whatever_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = [
            ("plain.gz", ROWS.to_vec()),
            ("gzip.csv", gzip(ROWS)),
            ("zip.csv", zipped(&[("../../etc/passwd", ROWS), ("__MACOSX/._x", b"junk")])),
        ];
        for (name, bytes) in inputs {
            let source = Source::open(&written(folder.path(), name, &bytes)).unwrap();
            let mut text = Vec::new();
            source.reader().read_to_end(&mut text).unwrap();
            assert_eq!(text, ROWS, "{name}");
            assert_eq!(source.bytes, 8);
            assert_eq!(source.sha256, hex(&Sha256::digest(ROWS)), "{name}");
        }
    }

    #[test]
    fn damaged_or_hostile_packing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cut = gzip(&ROWS.repeat(1000));
        let bomb = gzip(&vec![b'0'; 64 << 20]);
        let inputs = [
            ("cut.gz", cut[..cut.len() - 9].to_vec(), "damaged or cut off"),
            ("two.zip", zipped(&[("a", ROWS), ("b", ROWS)]), "exactly one file, it holds 2"),
            ("book.xlsx", zipped(&[("[Content_Types].xml", b"x")]), "spreadsheet"),
            ("cut.zip", zipped(&[("a", ROWS)])[..40].to_vec(), "damaged zip"),
            ("bomb.gz", bomb, "more than 250 times"),
        ];
        for (name, bytes, sentence) in inputs {
            let error = Source::open(&written(folder.path(), name, &bytes)).unwrap_err();
            assert!(error.to_string().contains(sentence), "{name}: {error}");
            assert!(!error.is_usage(), "{name}");
        }
    }

    #[test]
    fn a_wrong_call_is_told_from_a_bad_report() {
        let folder = tempfile::tempdir().unwrap();
        for (path, sentence) in [(folder.path().to_owned(), "directory"), (folder.path().join("none"), "no such file")]
        {
            let error = Source::open(&path).unwrap_err();
            assert!(error.to_string().contains(sentence) && error.is_usage(), "{error}");
        }
    }

    #[test]
    fn a_file_that_changes_between_two_scans_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        for other in [&b"a,b\n1,3\n"[..], b"a,b\n", b"a,b\n1,2\n3,4\n"] {
            let path = written(folder.path(), "report.csv", ROWS);
            let source = Source::open(&path).unwrap();
            std::fs::write(&path, other).unwrap();
            let error = source.reader().read_to_end(&mut Vec::new()).unwrap_err();
            assert!(error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<ChangedBytes>));
        }
    }
}
