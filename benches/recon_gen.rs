//! Writes a local side, a provider report and the truth between them: fixed seed, planted breaks of six kinds.
//!
//! `cargo run --release --example recon_gen -- --rows 1000000 --out DIR [--order shuffled|time] [--exponents]`
//!
//! The files are `local.csv`, `provider.csv` and `truth.csv` (kind, reference). The same seed gives the same bytes.

#![expect(clippy::print_stdout, reason = "a tool for the bench, not the program")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// splitmix64: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Plant {
    Nothing,
    MissingAtProvider,
    MissingLocally,
    DuplicateAtProvider,
    Amount,
    Currency,
    Status,
}

struct Line {
    order: u64,
    text: String,
}

const DAY_START: &str = "2026-05-01";

fn clock(second: u64) -> String {
    let (day, second) = (1 + second / 86_400, second % 86_400);
    format!("2026-05-{day:02} {:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

fn major(minor: u64, currency: &str) -> String {
    match currency {
        "JPY" => minor.to_string(),
        "KWD" => format!("{}.{:03}", minor / 1_000, minor % 1_000),
        _ => format!("{}.{:02}", minor / 100, minor % 100),
    }
}

fn provider_id(random: &mut Random) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789AB";
    let mut id = String::from("ch_");
    for _ in 0..3 {
        let bits = random.next();
        id.extend((0..8).map(|i| char::from(LETTERS[(bits >> (6 * i) & 63) as usize])));
    }
    id
}

fn main() -> std::io::Result<()> {
    let mut rows = 1_000_000_u64;
    let (mut seed, mut rate, mut shuffled, mut exponents) = (20_260_501_u64, 1_000_u64, true, false);
    let mut out = PathBuf::from("target/recon");
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{flag} needs a value"));
        match flag.as_str() {
            "--rows" => rows = value().parse().expect("--rows takes a number"),
            "--seed" => seed = value().parse().expect("--seed takes a number"),
            "--one-in" => rate = value().parse().expect("--one-in takes a number"),
            "--order" => shuffled = value() == "shuffled",
            "--exponents" => exponents = true,
            "--out" => out = PathBuf::from(value()),
            other => panic!("unknown flag {other}"),
        }
    }
    std::fs::create_dir_all(&out)?;
    let mut random = Random(seed);
    let mut local = BufWriter::new(File::create(out.join("local.csv"))?);
    let mut truth = BufWriter::new(File::create(out.join("truth.csv"))?);
    writeln!(
        local,
        "charge_id,idempotency_key,merchant_reference,provider_id,amount_minor,currency,status,created_at"
    )?;
    writeln!(truth, "kind,merchant_reference")?;
    let mut provider: Vec<Line> = Vec::with_capacity(usize::try_from(rows).expect("fits") + 1_000);
    for row in 0..rows {
        let (high, low) = (random.next(), random.next());
        let reference = format!("{high:016x}-{low:016x}");
        let id = provider_id(&mut random);
        let plant = match random.below(rate * 6) {
            0 => Plant::MissingAtProvider,
            1 => Plant::MissingLocally,
            2 => Plant::DuplicateAtProvider,
            3 => Plant::Amount,
            4 => Plant::Currency,
            5 => Plant::Status,
            _ => Plant::Nothing,
        };
        let currency = match (random.below(100), exponents) {
            (0..=6, true) => "JPY",
            (7..=9, true) => "KWD",
            (0..=59, _) => "USD",
            (60..=84, _) => "EUR",
            _ => "GBP",
        };
        // Money kinds are breaks only where money moved; a refunded charge has its own row shape elsewhere.
        let status = if plant == Plant::Nothing && random.below(100) < 3 { "failed" } else { "succeeded" };
        let minor = 100 + random.below(49_901);
        let second = row * 86_400 / rows;
        if plant != Plant::MissingLocally {
            writeln!(
                local,
                "{},ik_{high:016x}{low:016x},{reference},{id},{minor},{currency},{status},{}+00",
                row + 1,
                clock(second)
            )?;
        }
        let mut emit = |random: &mut Random, id: &str, minor: u64, currency: &str, status: &str, second: u64| {
            let order = if shuffled { random.next() } else { second << 32 | provider.len() as u64 };
            let text = format!(
                "{id},{reference},{},{currency},{status},{},{}\n",
                major(minor, currency),
                clock(second),
                major(minor * 29 / 1_000 + 30, currency)
            );
            provider.push(Line { order, text });
        };
        let provider_second = second + random.below(4);
        let kind = match plant {
            Plant::Nothing => {
                emit(&mut random, &id, minor, currency, status, provider_second);
                continue;
            }
            Plant::MissingAtProvider => "missing_at_provider",
            Plant::MissingLocally => {
                emit(&mut random, &id, minor, currency, status, provider_second);
                "missing_locally"
            }
            Plant::DuplicateAtProvider => {
                emit(&mut random, &id, minor, currency, status, provider_second);
                let second_id = provider_id(&mut random);
                emit(&mut random, &second_id, minor, currency, status, provider_second + 30);
                "duplicate_at_provider"
            }
            Plant::Amount if random.below(2) == 0 => {
                emit(&mut random, &id, minor + 1, currency, status, provider_second);
                "amount_over"
            }
            Plant::Amount => {
                emit(&mut random, &id, minor / 2, currency, status, provider_second);
                "amount_under"
            }
            Plant::Currency => {
                let other = if currency == "EUR" { "GBP" } else { "EUR" };
                emit(&mut random, &id, minor, other, status, provider_second);
                "currency_mismatch"
            }
            Plant::Status => {
                emit(&mut random, &id, minor, currency, "failed", provider_second);
                "status_provider_failed"
            }
        };
        writeln!(truth, "{kind},{reference}")?;
    }
    provider.sort_unstable_by_key(|line| line.order);
    let mut report = BufWriter::new(File::create(out.join("provider.csv"))?);
    report.write_all(b"provider_id,merchant_reference,amount,currency,status,created_utc,fee\n")?;
    for line in &provider {
        report.write_all(line.text.as_bytes())?;
    }
    local.flush()?;
    truth.flush()?;
    report.flush()?;
    println!("{rows} local rows of {DAY_START}, {} provider rows, in {}", provider.len(), out.display());
    Ok(())
}
