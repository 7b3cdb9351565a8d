//! Words to the person at the terminal: a command's results, which are not logs.

/// A line to standard output. A reader that has gone away (`| head`) is no reason to fail.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stdout(), format_args!("{}\n", format_args!($($words)*)));
    }};
}
