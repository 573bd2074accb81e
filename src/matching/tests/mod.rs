//! Tests of the comparison as a whole.

mod cases;
mod decisions;
mod laws;
mod oracle;
mod rows;
mod shop;
