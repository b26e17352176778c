//! `sharebridge kerberos-helper`: speaks with the Kerberos library for another process of this program, over its standard input and output.

use std::io;

use super::fail;
use crate::error::Exit;
use crate::wire::sasl::kerberos::library;

/// Arguments of `kerberos-helper`.
#[derive(Debug, clap::Args)]
pub struct KerberosHelper {
    /// Whose tickets; without, those of the keytab's first principal or of the credential cache
    #[arg(long)]
    pub principal: Option<String>,
}

impl KerberosHelper {
    /// Answers questions until standard input ends.
    pub fn run(&self) -> Exit {
        match library::serve(self.principal.as_deref(), (io::stdin().lock(), io::stdout().lock())) {
            Ok(()) => Exit::Ok,
            Err(error) => fail(error),
        }
    }
}
