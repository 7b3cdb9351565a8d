//! Outcomes against a model: random requests, all at once, come to what they would have one after the other.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use rowlock::{Engine, Outcome};
use rowlock_testing::{TestDb, engines};

use crate::{start, start_with_ledger, support::open};

/// A row that is not there, among those that are.
const NOWHERE: i64 = 1000;
const ROUNDS: usize = 20;

/// Values of rows 1 to 4, and requests as (row, quantity) in the order in which they come.
fn case() -> impl Strategy<Value = (Vec<i64>, Vec<(i64, i64)>)> {
    let row = prop_oneof![3 => Just(1), 6 => 1i64..=4, 1 => Just(NOWHERE)];
    let quantity = prop_oneof![8 => 0i64..=9, 1 => 50i64..=500, 1 => Just(i64::MAX)];
    let stock = prop_oneof![8 => 0i64..=60, 1 => -5i64..0, 1 => Just(i64::MAX)];
    (prop::collection::vec(stock, 4), prop::collection::vec((row, quantity), 1..60))
}

/// One after the other.
fn sequential(stock: &mut BTreeMap<i64, i64>, requests: &[(i64, i64)]) -> Vec<Outcome> {
    let one = |(row, quantity): &(i64, i64)| match stock.get_mut(row) {
        None => Outcome::Missing,
        Some(left) if *left < *quantity => Outcome::Insufficient { found: *left },
        Some(left) => {
            *left -= quantity;
            Outcome::Applied { value: *left }
        }
    };
    requests.iter().map(one).collect()
}

async fn run<E: Engine>(test: TestDb, ledger: bool, token: bool) {
    let db = open::<E>(&test).await;
    let merger = match (ledger, token) {
        (true, _) => start_with_ledger(&test, &db).await,
        (false, true) => db.kind("merged").commit_token(true).merger(crate::STOCK).start().await.unwrap(),
        (false, false) => start(&db).await,
    };
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    for round in 0..ROUNDS {
        let (stock, requests) = case().new_tree(&mut runner).unwrap().current();
        for (row, n) in (1..).zip(&stock) {
            test.execute(&format!("update inventories set n = {n} where id = {row}")).await;
        }
        let mut model: BTreeMap<i64, i64> = (1..).zip(stock).collect();
        let expected = sequential(&mut model, &requests);
        // `join_all` polls them in their order: that is the order in which they come.
        let calls = requests.iter().map(|(row, quantity)| merger.subtract(*row, *quantity));
        let outcomes: Vec<Outcome> = join_all(calls).await.into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(outcomes, expected, "round {round}: {requests:?}");
        for (row, n) in model {
            let left = test.value(&format!("select n from inventories where id = {row}")).await;
            assert_eq!(left, n.to_string(), "row {row} in round {round}");
        }
        if ledger {
            let entries = test.value("select count(*) from stock_ledger").await;
            assert_eq!(entries, requests.len().to_string());
            test.execute("delete from stock_ledger").await;
        }
    }
    assert_eq!(merger.waiting(), 0);
}

engines! {
    async fn outcomes_are_those_of_one_after_the_other<E: Engine>(test: TestDb) {
        run::<E>(test, false, false).await;
    }

    async fn with_a_ledger_too<E: Engine>(test: TestDb) {
        run::<E>(test, true, false).await;
    }

    async fn with_a_commit_token_too<E: Engine>(test: TestDb) {
        run::<E>(test, false, true).await;
    }
}
