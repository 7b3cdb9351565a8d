//! The shop from outside: over HTTP, on every engine, and as a process.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod busy;
mod edit;
#[cfg(test)]
mod flash;
#[cfg(test)]
mod load;
#[cfg(test)]
mod network;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod process;
#[cfg(test)]
mod support;
#[cfg(test)]
mod webhook;
