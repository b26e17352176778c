//! What no compiler checks: sizes, who may name whom, words that are not used, and whether the documents are true to the code.
//! Needs no Kafka.

mod documents;
pub(crate) mod metrics;
mod rings;
mod shape;

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
struct File {
    /// From the root of the repository, with `/` between.
    path: String,
    text: String,
}

impl File {
    fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.to_owned(), text }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The text without the tests at its end.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// The module of the library that the file belongs to: its own name or that of its first folder below `src/`.
    fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        below.split('/').next().filter(|module| !matches!(*module, "lib" | "main"))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All text files, except those of git, of the build, and of this test, which must name what it forbids.
fn files() -> Vec<File> {
    let (mut files, mut folders) = (vec![], vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.extend(Some(path).filter(|_| !matches!(&*name, ".git" | "target")));
            } else if let Some(text) = text(&path).filter(|_| !name.starts_with("tests/suite/tidy")) {
                files.push(File { path: name, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 50, "the walk found only {} files", files.len());
    files
}

fn text(path: &PathBuf) -> Option<String> {
    String::from_utf8(fs::read(path).unwrap()).ok()
}

/// Fails with all complaints at once.
fn check(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
