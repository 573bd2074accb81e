//! A rendered file, still in memory: writing and sending it is the business of others.

/// One file that a run leaves behind or attaches to a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// File name, ASCII, without a folder.
    pub name: &'static str,
    /// Media type, for a mail's part or a web server.
    pub media_type: &'static str,
    /// The content.
    pub bytes: Vec<u8>,
}
