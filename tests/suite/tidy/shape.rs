//! Sizes, names and words.

use super::{File, check, files};

/// Lines that half of the files stay below.
const MEDIAN_LINES_MAX: usize = 200;
/// Lines of the longest file.
const FILE_LINES_MAX: usize = 600;

/// Modules that would attract what belongs elsewhere, and folders' `mod.rs`, which hide their own name.
const NAMES: [&str; 5] = ["utils.rs", "common.rs", "types.rs", "helpers.rs", "mod.rs"];

/// Words with the part of the tree where they are not used, and what to do instead.
const WORDS: [(&str, &str, &str); 5] = [
    ("todo!(", "", "do it, or leave it out"),
    ("unimplemented!(", "", "do it, or leave it out"),
    ("dbg!(", "", "use tracing"),
    ("allow(dead_code)", "", "delete the code"),
    ("thread::sleep", "src/", "use tokio::time"),
];

/// Where a path leaves the repository: somebody's home, or a folder beside it (in two pieces, so that it stands nowhere).
const PLACES: [&str; 4] = ["/home/", "/root/", "/Users/", concat!("../", "shared")];

/// Files without clock, network and disk: time and bytes come in as arguments.
const PURE: [&str; 21] = [
    "src/batch",
    "src/route.rs",
    "src/metrics/rate.rs",
    "src/settle.rs",
    "src/source/share/session.rs",
    "src/source/share/acquire.rs",
    "src/source/share/pace.rs",
    "src/source/share/suspects.rs",
    "src/source/consumer/table.rs",
    "src/source/consumer/progress.rs",
    "src/source/consumer/session.rs",
    "src/source/consumer/visible.rs",
    "src/source/consumer/appetite.rs",
    "src/source/consumer/membership/assign.rs",
    "src/lane/retry.rs",
    "src/lane/shelf.rs",
    "src/sink/kafka/load.rs",
    "src/sink/kafka/pack.rs",
    "src/sink/kafka/plan.rs",
    "src/bridge/order.rs",
    "src/bridge/switch/judge.rs",
];

/// What only the others name.
const IMPURE: [&str; 6] = ["Instant::now", "SystemTime", "tokio::net", "tokio::fs", "std::fs", "std::net"];

fn rust_files() -> Vec<File> {
    let is_ours = |file: &File| file.path.starts_with("src/") || file.path.starts_with("tests/");
    files().into_iter().filter(|file| file.is_rust() && is_ours(file)).collect()
}

/// Each line of `text`, which begins the file, that holds `word`, as a complaint.
fn named(file: &File, text: &str, (word, remedy): (&str, &str)) -> Vec<String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains(word));
    lines.map(|(number, _): (usize, _)| format!("{}:{number}: `{word}`: {remedy}", file.path)).collect()
}

#[test]
fn files_are_short() {
    let mut sizes: Vec<(usize, String)> =
        rust_files().into_iter().map(|file| (file.text.lines().count(), file.path)).collect();
    sizes.sort();
    let too_long = sizes.iter().filter(|(lines, _)| *lines > FILE_LINES_MAX);
    check(too_long.map(|(lines, path)| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}")).collect());
    let (median, _) = sizes[sizes.len() / 2];
    assert!(median < MEDIAN_LINES_MAX, "the median file has {median} lines, at most {}", MEDIAN_LINES_MAX - 1);
}

#[test]
fn file_names_say_what_is_inside() {
    let banned = |file: &File| NAMES.iter().any(|name| file.path.rsplit('/').next() == Some(name));
    let found = rust_files().into_iter().filter(banned);
    check(found.map(|file| format!("{}: name it after what it holds (foo.rs and foo/)", file.path)).collect());
}

#[test]
fn banned_words_stay_out() {
    let rust = rust_files();
    let pairs = rust.iter().flat_map(|file| WORDS.iter().map(move |word| (file, word)));
    let inside = pairs.filter(|(file, (_, part, _))| file.path.starts_with(part));
    check(inside.flat_map(|(file, (word, _, remedy))| named(file, &file.text, (word, remedy))).collect());
}

#[test]
fn no_file_names_a_place_outside_of_the_repository() {
    let all = files();
    let pairs = all.iter().flat_map(|file| PLACES.iter().map(move |place| (file, place)));
    check(pairs.flat_map(|(file, place)| named(file, &file.text, (place, "it exists on one machine only"))).collect());
}

#[test]
fn pure_files_know_no_clock_and_no_socket() {
    let rust = rust_files();
    for pure in PURE {
        assert!(rust.iter().any(|file| file.path.starts_with(pure)), "{pure} is gone: take it off the list");
    }
    let is_pure = |file: &&File| PURE.iter().any(|pure| file.path.starts_with(pure));
    let pairs = rust.iter().filter(is_pure).flat_map(|file| IMPURE.iter().map(move |word| (file, word)));
    check(
        pairs
            .flat_map(|(file, word)| named(file, file.code(), (word, "this file is pure, take it as an argument")))
            .collect(),
    );
}
