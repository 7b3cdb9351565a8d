//! What a test's own task traces, kept as text.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::{Level, subscriber::DefaultGuard};

/// The log of one test, from where it was started; tasks that are spawned write none.
pub(crate) struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

impl Log {
    /// Keeps what is traced at `level` and above.
    pub(crate) fn start(level: Level) -> Log {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let to = text.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_writer(move || Writer(to.clone()))
            .finish();
        Log { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// All that was traced since it was last asked for.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.text.lock().unwrap())).into_owned()
    }

    /// What rowlock has told since, the first line of each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.text().lines().filter(|line| line.contains("rowlock: ")).map(str::to_owned).collect()
    }
}

struct Writer(Arc<Mutex<Vec<u8>>>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
