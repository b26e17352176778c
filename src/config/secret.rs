//! Values that no output may show, and values that stand elsewhere: `${file:/path}`, `${env:NAME}`, `${credentials:NAME}`.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::security::jaas;
use crate::limits::SECRET_BYTES_MAX;

/// The variable in which systemd names the folder of a service's credentials (`LoadCredential=`).
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Why a value that stands elsewhere cannot be had. No variant holds the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A file, or a credential, is not readable.
    #[error("${{{name}}} cannot be read ({cause}), create the file or correct the name")]
    Unreadable {
        /// What stands in the braces.
        name: String,
        /// What the system says.
        cause: String,
    },
    /// A variable is not set.
    #[error("${{env:{0}}} is not set, set it in the environment of the process or correct the name")]
    Unset(String),
    /// A reference that cannot be one.
    #[error("{0} is no reference to a value, write ${{file:/path}}, ${{env:NAME}} or ${{credentials:NAME}}")]
    Malformed(String),
    /// Nothing stands there.
    #[error("is empty where it was looked up, put the value there")]
    Empty,
    /// `sasl.jaas.config` cannot be read or lacks an option.
    #[error("{0}")]
    Jaas(#[from] jaas::JaasError),
}

/// Text with references in it, which are looked up each time.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(Zeroizing<String>),
    File(PathBuf),
    Env(String),
    Credential(String),
}

impl Template {
    /// Finds the references in a text; `$${` stands for `${`.
    pub(super) fn parse(text: &str) -> Result<Self, SecretError> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), Zeroizing::new(String::new()), text);
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                plain.push_str(before);
                plain.push_str("${");
                rest = &from[2..];
                continue;
            }
            plain.push_str(before);
            match reference(&from[2..])? {
                Some((piece, behind)) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(piece);
                    rest = behind;
                }
                None => {
                    plain.push_str("${");
                    rest = &from[2..];
                }
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    /// Whether something must be looked up.
    pub(super) fn refers(&self) -> bool {
        self.0.iter().any(|piece| !matches!(piece, Piece::Text(_)))
    }

    /// The text as it is now.
    pub(super) fn resolve(&self) -> Result<Zeroizing<String>, SecretError> {
        let mut text = Zeroizing::new(String::new());
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::File(path) => text.push_str(&read(path, &format!("file:{}", path.display()))?),
                Piece::Env(name) => {
                    let value = std::env::var(name).map_err(|_| SecretError::Unset(name.clone()))?;
                    text.push_str(&Zeroizing::new(value));
                }
                Piece::Credential(name) => {
                    let folder = std::env::var_os(CREDENTIALS_DIRECTORY)
                        .ok_or_else(|| SecretError::Unset(CREDENTIALS_DIRECTORY.to_owned()))?;
                    text.push_str(&read(&Path::new(&folder).join(name), &format!("credentials:{name}"))?);
                }
            }
        }
        Ok(text)
    }
}

/// Reads what follows `${`; `None` if it is no reference of ours, such as `${topic}`.
fn reference(text: &str) -> Result<Option<(Piece, &str)>, SecretError> {
    let Some((kind, rest)) = text.split_once(':') else {
        return Ok(None);
    };
    if !matches!(kind, "file" | "env" | "credentials") {
        return Ok(None);
    }
    let malformed = || SecretError::Malformed(format!("${{{kind}:"));
    let (name, behind) = rest.split_once('}').ok_or_else(malformed)?;
    let piece = match kind {
        "file" if name.starts_with('/') => Piece::File(name.into()),
        "env" if !name.is_empty() && !name.contains(['=', '\0']) => Piece::Env(name.to_owned()),
        "credentials" if !name.is_empty() && !name.contains('/') && name != ".." => Piece::Credential(name.to_owned()),
        _ => return Err(malformed()),
    };
    Ok(Some((piece, behind)))
}

/// Reads a file without the end of its last line, which editors put there.
fn read(path: &Path, name: &str) -> Result<Zeroizing<String>, SecretError> {
    let read = || {
        let mut text = Zeroizing::new(String::new());
        File::open(path)?.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > SECRET_BYTES_MAX {
            return Err(io::Error::other(format!("larger than {SECRET_BYTES_MAX} bytes")));
        }
        Ok(text)
    };
    let mut text = read()
        .map_err(|cause: io::Error| SecretError::Unreadable { name: name.to_owned(), cause: cause.to_string() })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// A value that `Debug` shows as `***`. It is looked up anew each time that it is needed, so that a renewed file counts.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    template: Template,
    /// The text is a `sasl.jaas.config`, and this option of it is meant.
    option: Option<&'static str>,
}

impl Secret {
    /// A secret as the file gives it.
    pub(super) fn parse(text: &str) -> Result<Self, SecretError> {
        Ok(Self { template: Template::parse(text)?, option: None })
    }

    /// An option of a login module, where this is a `sasl.jaas.config`.
    pub(super) fn option(&self, name: &'static str) -> Self {
        Self { option: Some(name), ..self.clone() }
    }

    /// The value, for immediate use: nobody may keep, log or show it.
    ///
    /// Errors: a file or variable is not there, or empty.
    pub fn reveal(&self) -> Result<Zeroizing<String>, SecretError> {
        let text = self.template.resolve()?;
        let text = match self.option {
            Some(option) => jaas::option(&text, option)?,
            None => text,
        };
        if text.is_empty() { Err(SecretError::Empty) } else { Ok(text) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<String, String> {
        let resolved = Template::parse(text).and_then(|template| template.resolve());
        resolved.map(|text| text.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn references_are_looked_up_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "hunter2\n").unwrap();
        let path = path.display();
        // Cargo sets this one for every test.
        let name = env!("CARGO_PKG_NAME");
        assert_eq!(resolved(&format!("${{file:{path}}}")), Ok("hunter2".to_owned()));
        let mixed = format!("a=\"${{file:{path}}}\" b=${{env:CARGO_PKG_NAME}};");
        assert_eq!(resolved(&mixed), Ok(format!("a=\"hunter2\" b={name};")));
        for plain in ["", "${topic}", "a$b", "${unknown:x}", "${"] {
            assert_eq!(resolved(plain), Ok(plain.to_owned()));
        }
        assert_eq!(resolved("$${env:HOME}"), Ok("${env:HOME}".to_owned()));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = "${file:/nowhere/secret} cannot be read (No such file or directory (os error 2)), create the file or correct the name";
        assert_eq!(resolved("${file:/nowhere/secret}"), Err(missing.to_owned()));
        let unset = "${env:NO_SUCH_NAME} is not set, set it in the environment of the process or correct the name";
        assert_eq!(resolved("${env:NO_SUCH_NAME}"), Err(unset.to_owned()));
        for (text, kind) in [("${file:relative}", "file"), ("${env:}", "env"), ("${credentials:../x}", "credentials")] {
            let expected = format!(
                "${{{kind}: is no reference to a value, write ${{file:/path}}, ${{env:NAME}} or ${{credentials:NAME}}"
            );
            assert_eq!(resolved(text), Err(expected));
        }
    }

    #[test]
    fn a_secret_is_read_anew_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = Secret::parse(&format!("${{file:{}}}", path.display())).unwrap();
        for value in ["first", "second\r\n"] {
            std::fs::write(&path, value).unwrap();
            assert_eq!(secret.reveal().unwrap().as_str(), value.trim_end());
        }
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(secret.reveal(), Err(SecretError::Empty));
        assert_eq!(format!("{:?}", Secret::parse("hunter2")), "Ok(***)");
    }
}
