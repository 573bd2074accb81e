//! The one integration binary: real PostgreSQL, the real executable, real files.

mod tidy;
