//! Repairs one known damage: JSON cells whose inner quotes the provider has not doubled, which splits them at commas.
//!
//! Only columns that a format names are repaired, by the brackets and strings of the JSON itself. Their content is not
//! needed and is left out. Whether the other cells stand where they should is for the row's own arithmetic to show.

use super::records::Record;

/// The record with the cells `json` (their places in the title line) emptied: valid CSV again, or `None`.
pub(super) fn without_json(record: &Record<'_>, delimiter: u8, json: &[usize]) -> Option<Vec<u8>> {
    let raw = record.raw();
    let (mut rest, mut cell) = (raw, 0);
    let mut repaired = Vec::with_capacity(raw.len());
    loop {
        let length =
            if json.contains(&cell) && opens_json(rest) { json_cell(rest)? } else { plain_cell(rest, delimiter)? };
        if !json.contains(&cell) {
            repaired.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
        match rest.split_first() {
            Some((&byte, behind)) if byte == delimiter => {
                repaired.push(byte);
                (rest, cell) = (behind, cell + 1);
            }
            None | Some((b'\r' | b'\n', _)) => break,
            Some(_) => return None,
        }
    }
    // What stands behind the line's end belongs to another record that the damage has swallowed: not to be guessed at.
    if !rest.trim_ascii().is_empty() {
        return None;
    }
    repaired.push(b'\n');
    Some(repaired)
}

fn opens_json(cell: &[u8]) -> bool {
    let cell = cell.strip_prefix(b"\"").unwrap_or(cell);
    matches!(cell.first(), Some(b'[' | b'{'))
}

/// Length of a JSON cell with the quotes around it.
fn json_cell(text: &[u8]) -> Option<usize> {
    let quoted = text.first() == Some(&b'"');
    // Doubled as it should be, the first quote inside is followed by another one.
    let (mut depth, mut in_string, mut at) = (0_usize, false, usize::from(quoted));
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            // A doubled quote is one quote; an empty string is two.
            b'"' if !in_string => {
                let doubled = quoted
                    && text.get(at) == Some(&b'"')
                    && !matches!(text.get(at + 1), Some(b',' | b'}' | b']' | b':'));
                at += usize::from(doubled);
                in_string = true;
            }
            b'"' => {
                at += usize::from(quoted && text.get(at) == Some(&b'"'));
                in_string = false;
            }
            b'\\' if in_string => at += 1,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    if quoted { (text.get(at) == Some(&b'"')).then_some(at + 1) } else { Some(at) }
}

/// Length of an ordinary cell with the quotes around it.
fn plain_cell(text: &[u8], delimiter: u8) -> Option<usize> {
    if text.first() != Some(&b'"') {
        let end = |&byte: &u8| byte == delimiter || byte == b'\n' || byte == b'\r';
        return Some(text.iter().position(end).unwrap_or(text.len()));
    }
    let mut at = 1;
    loop {
        at += text.get(at..)?.iter().position(|&byte| byte == b'"')? + 1;
        if text.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::Records;
    use super::*;

    #[test]
    fn only_the_named_cells_are_taken_out_and_the_rest_stays_byte_for_byte() {
        let table = [
            ("1,\"[{\"a\":\"x,y\",\"b\":\"\"}]\",2\n", Some("1,,2\n")),
            ("1,[{\"a\":\"x,y\",\"b\":[1,2]}],\"2,3\"\r\n", Some("1,,\"2,3\"\n")),
            ("1,\"[{\"\"a\"\":\"\"x,y\"\"}]\",2\n", Some("1,,2\n")),
            ("1,\"{\"a\":\"\\\"],\"}\",\"say \"\"x\"\"\"", Some("1,,\"say \"\"x\"\"\"\n")),
            ("1,\"[{\"a\":1}\",2\n", None),
            ("1,[}],2\n", None),
            ("1,\"[1]\"x,2\n", None),
        ];
        for (text, expected) in table {
            let mut records = Records::new("test.csv", text.as_bytes(), b',');
            let record = records.next().unwrap().unwrap();
            let repaired = without_json(&record, b',', &[1]);
            assert_eq!(repaired.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
