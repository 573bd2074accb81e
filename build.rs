//! The migrations are embedded by a macro, which cargo does not watch by itself.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
