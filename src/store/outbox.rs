//! Messages to be sent by `deliver`: written in the transaction of what they tell, exact to the byte.
//!
//! Never here: sending, and the headers that belong to it.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Store, StoreError, storable};

/// Compressed attachments of one message, together. The table checks the same number.
const ATTACHMENTS_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Attachments after decompression: what we are willing to unpack.
const CONTENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A message for the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxMessage {
    /// Which route takes it, for example `mismatch-mail`.
    pub topic: String,
    /// One message for each key, ever: a second one is dropped without a word.
    pub dedup_key: String,
    /// What is sent.
    pub mail: Mail,
    /// Files beside it; together at most 10 MB after compression.
    pub attachments: Vec<Attachment>,
}

/// A rendered mail, without the headers that sending adds (Date, Message-ID).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// Sender's address.
    pub from: String,
    /// Receivers' addresses.
    pub to: Vec<String>,
    /// Subject line.
    pub subject: String,
    /// Plain text part.
    pub text: String,
    /// HTML part.
    pub html: String,
    /// Further headers: name and value.
    pub headers: Vec<(String, String)>,
}

/// A file that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// File name, ASCII.
    pub name: String,
    /// Media type.
    pub content_type: String,
    /// Its bytes, not compressed.
    pub content: Vec<u8>,
}

/// The shape of `payload`. Its version is that of its field names.
#[derive(Serialize, Deserialize)]
struct Payload {
    version: u8,
    mail: Mail,
    attachments: Vec<AttachmentPlace>,
}

/// One attachment in the joined bytes.
#[derive(Serialize, Deserialize)]
struct AttachmentPlace {
    name: String,
    content_type: String,
    bytes: u64,
}

impl Store {
    /// The message with this key, if there is one, and the id that its Message-ID is made of.
    pub async fn outbox_message(&self, dedup_key: &str) -> Result<Option<(Uuid, OutboxMessage)>, StoreError> {
        let what = format!("reading outbox message {dedup_key}");
        let row: Option<(Uuid, String, serde_json::Value, Option<Vec<u8>>)> = sqlx::query_as(
            "/* store::outbox_message */
             SELECT message_id, topic, payload, attachments FROM idem.outbox WHERE dedup_key = $1",
        )
        .bind(dedup_key)
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| StoreError::query(what.clone(), &error))?;
        let Some((id, topic, payload, packed)) = row else { return Ok(None) };
        let corrupt = |reason: String| StoreError::Corrupt { what: what.clone(), reason };
        let payload: Payload = serde_json::from_value(payload).map_err(|error| corrupt(error.to_string()))?;
        let attachments = unpack(&payload.attachments, packed.as_deref()).map_err(corrupt)?;
        Ok(Some((id, OutboxMessage { topic, dedup_key: dedup_key.to_owned(), mail: payload.mail, attachments })))
    }
}

/// Writes a message in the caller's transaction. Returns whether it was new.
pub(super) async fn insert(connection: &mut PgConnection, message: &OutboxMessage) -> Result<bool, StoreError> {
    let what = format!("writing outbox message {}", message.dedup_key);
    let packed = pack(&message.attachments).map_err(|reason| StoreError::Corrupt { what: what.clone(), reason })?;
    let places = message.attachments.iter().map(|file| AttachmentPlace {
        name: file.name.clone(),
        content_type: file.content_type.clone(),
        bytes: file.content.len() as u64,
    });
    let mut mail = message.mail.clone();
    for text in [&mut mail.subject, &mut mail.text, &mut mail.html] {
        if let Cow::Owned(clean) = storable(text) {
            *text = clean;
        }
    }
    let payload = Payload { version: 1, mail, attachments: places.collect() };
    let done = sqlx::query(
        "/* store::outbox_insert */
         INSERT INTO idem.outbox (topic, dedup_key, payload, attachments) VALUES ($1, $2, $3, $4)
         ON CONFLICT (dedup_key) DO NOTHING",
    )
    .bind(&message.topic)
    .bind(&message.dedup_key)
    .bind(Json(payload))
    .bind(packed)
    .execute(connection)
    .await
    .map_err(|error| StoreError::query(what, &error))?;
    Ok(done.rows_affected() == 1)
}

/// All attachments one after the other, gzip; `None` without any.
fn pack(attachments: &[Attachment]) -> Result<Option<Vec<u8>>, String> {
    if attachments.is_empty() {
        return Ok(None);
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    for file in attachments {
        gzip.write_all(&file.content).expect("writing to memory cannot fail");
    }
    let packed = gzip.finish().expect("writing to memory cannot fail");
    if packed.len() > ATTACHMENTS_BYTES_MAX {
        return Err(format!("attachments of {} bytes, at most {ATTACHMENTS_BYTES_MAX} are possible", packed.len()));
    }
    Ok(Some(packed))
}

fn unpack(places: &[AttachmentPlace], packed: Option<&[u8]>) -> Result<Vec<Attachment>, String> {
    let total = places.iter().fold(0_u64, |sum, place| sum.saturating_add(place.bytes));
    if total > CONTENT_BYTES_MAX {
        return Err(format!("attachments of {total} bytes, at most {CONTENT_BYTES_MAX} are possible"));
    }
    let mut content = GzDecoder::new(packed.unwrap_or_default());
    let mut attachments = Vec::with_capacity(places.len());
    for place in places {
        let mut bytes = vec![0; place.bytes as usize];
        content.read_exact(&mut bytes).map_err(|error| format!("attachment {}: {error}", place.name))?;
        attachments.push(Attachment {
            name: place.name.clone(),
            content_type: place.content_type.clone(),
            content: bytes,
        });
    }
    Ok(attachments)
}
