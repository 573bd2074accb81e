//! Configuration: `jobs.toml`, the environment and the flags become [`Settings`], or one clear [`ConfigError`].
//!
//! `file.rs` mirrors the file as written, `settings.rs` holds checked values per job, `value.rs` the small types.
//! Nothing else reads `jobs.toml` or the environment.

pub mod settings;
pub mod value;

pub use settings::{LocalSource, Reading, ReconcileSettings, Settings};
pub use value::Secret;
