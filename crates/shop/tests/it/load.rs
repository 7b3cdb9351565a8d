//! Everything at once: in the declared order nothing deadlocks and everything adds up; as it is usually written it does
//! deadlock, on the same server, with the server's own code.

use rowlock_testing::{Family, TestDb};
use shop::load::{Client, Load, Outcome, drive};

use crate::support::{Town, settings};

/// Few items and accounts, so that everyone is at the same ones.
fn load(requests: u64) -> Load {
    let (url, keep, strategy) = (None, false, vec![]);
    Load { url, seconds: 1, requests: Some(requests), clients: 16, items: 12, accounts: 12, hot: 0.5, strategy, keep }
}

async fn run(town: &Town, requests: u64) -> Outcome {
    let client = Client::new(&town.url(), town.running.signer()).unwrap();
    drive(&client, &load(requests)).await.unwrap()
}

rowlock_testing::engines! {
    async fn in_order_nothing_deadlocks_and_everything_adds_up(db: TestDb) {
        let town = Town::open(&db).await;
        let outcome = run(&town, 1_500).await;
        assert_eq!(outcome.broken(), Vec::<String>::new());
        assert!(outcome.requests() >= 1_000, "{outcome:#?}");
        assert!(outcome.strange().is_empty(), "{:#?}", outcome.strange());
        assert!(outcome.surfaced().is_empty(), "{:#?}", outcome.surfaced());
        let locks = outcome.locks().unwrap();
        assert_eq!((locks.deadlocks, locks.refused), (0, 0), "{locks:#?}");
        town.close().await;
    }

    async fn as_usually_written_it_breaks(db: TestDb) {
        let town = Town::with(settings(&db, true)).await;
        let wanted: &[&str] = match db.family() {
            Family::Postgres => &["40P01"],
            Family::InnoDb => &["1213"],
            // One writer at a time: nothing can deadlock, so it is turned away instead.
            Family::Sqlite => &["5", "517"],
        };
        let outcome = run(&town, 400).await;
        let surfaced = outcome.surfaced();
        assert!(wanted.iter().any(|code| surfaced.contains_key(*code)), "{surfaced:?}");
        town.running.stop().await.unwrap();
    }
}
