//! Configuration: the environment and `jobs.toml` become [`Settings`], or one clear [`ConfigError`].
//!
//! A setting is one field in `file.rs` (the file as written), one in `settings.rs` (the checked value) and one line in
//! the embedded `jobs.toml` (default, example and reference in one). Precedence: a flag, then the environment, then
//! the file, then the default; flags are laid over the settings by who has parsed them. Nothing else reads
//! `jobs.toml` or the environment.

mod check;
mod decode;
mod environment;
mod error;
mod file;
mod load;
mod local;
mod partition;
mod resolve;
pub mod settings;
mod tree;
pub mod value;

pub use environment::Environment;
pub use error::{ConfigError, Problem};
pub use load::{REFERENCE, load, load_text};
pub use settings::{
    GenericColumns, GenericFormat, GenericStatus, LocalFrom, LocalSource, LocalTable, MailSettings, PartitionSettings,
    PartitionTable, ProviderSettings, Reading, ReconcileSettings, Settings, TableKind,
};
pub use value::{DateOrder, Secret, WindowEdge};
