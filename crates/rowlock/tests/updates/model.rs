//! Outcomes and values held against a naive model, in random batches: duplicates, gaps, bounds, together or not, alone or
//! in a transaction, on a wide column and on a narrow one near its ends.

use std::{collections::BTreeMap, ops::RangeInclusive};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use rowlock::{Change, Counter, Db, Engine, Error, Outcome, Resource};
use rowlock_testing::{TestDb, engines};

rowlock::lock_order! {
    order Two {
        Wide   => "wide"   (id: i64),
        Narrow => "narrow" (id: i64),
    }
}

const BATCHES: u32 = 200;

#[derive(Clone, Copy, Debug)]
enum Op {
    Subtract(i64),
    Add(i64),
    CompareAndSet(i64, i64),
    SetIf(i64, i64, i64),
}

#[derive(Clone, Debug)]
struct Case {
    items: Vec<(i64, Op)>,
    floor: Option<i64>,
    cap: Option<i64>,
    together: bool,
    nowait: bool,
    alone: bool,
}

fn case(size: i64) -> impl Strategy<Value = Case> {
    let amount = move || prop_oneof![3 => 0..=size / 4, 1 => 0..=size];
    let value = move || -size..=size;
    let op = prop_oneof![
        3 => amount().prop_map(Op::Subtract).boxed(),
        2 => amount().prop_map(Op::Add).boxed(),
        1 => (value(), value()).prop_map(|(expected, new)| Op::CompareAndSet(expected, new)).boxed(),
        1 => (value(), value(), value()).prop_map(|(low, high, new)| Op::SetIf(low, high, new)).boxed(),
    ];
    let bound = move || prop::option::weighted(0.3, value());
    // One change has one kind of operation; keys 7 and 8 have no row.
    let items = (op, prop::collection::vec((1i64..=8, amount(), value()), 1..6)).prop_map(|(op, items)| {
        let like = |(key, amount, value): (i64, i64, i64)| match op {
            Op::Subtract(_) => (key, Op::Subtract(amount)),
            Op::Add(_) => (key, Op::Add(amount)),
            Op::CompareAndSet(..) => (key, Op::CompareAndSet(amount, value)),
            Op::SetIf(low, high, _) => (key, Op::SetIf(low, high, value)),
        };
        items.into_iter().map(like).collect()
    });
    (items, bound(), bound(), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(items, floor, cap, together, nowait, alone)| Case { items, floor, cap, together, nowait, alone })
}

fn change<R: Resource<Key = i64>>(case: &Case) -> Change<R> {
    const fn counter<R: Resource>() -> Counter<R> {
        Counter::new("n")
    }
    let items = || case.items.iter();
    let mut change = match case.items[0].1 {
        Op::Subtract(_) => counter::<R>().subtract(items().map(|(key, op)| match op {
            Op::Subtract(by) => (*key, *by),
            other => panic!("{other:?} among subtractions"),
        })),
        Op::Add(_) => counter::<R>().add(items().map(|(key, op)| match op {
            Op::Add(by) => (*key, *by),
            other => panic!("{other:?} among additions"),
        })),
        Op::CompareAndSet(..) => counter::<R>().compare_and_set(items().map(|(key, op)| match op {
            Op::CompareAndSet(expected, new) => (*key, *expected, *new),
            other => panic!("{other:?} among swaps"),
        })),
        Op::SetIf(low, high, _) => counter::<R>().set_if(
            low..=high,
            items().map(|(key, op)| match op {
                Op::SetIf(_, _, new) => (*key, *new),
                other => panic!("{other:?} among assignments"),
            }),
        ),
    };
    if let Some(floor) = case.floor {
        change = change.at_least(floor);
    }
    if let Some(cap) = case.cap {
        change = change.at_most(cap);
    }
    if case.together {
        change = change.together();
    }
    if case.nowait { change.nowait() } else { change }
}

/// The naive version: item after item, on a copy.
fn expect(case: &Case, rows: &mut BTreeMap<i64, i64>, range: RangeInclusive<i64>) -> Vec<Outcome> {
    let mut after = rows.clone();
    let mut met = Vec::new();
    let floor = case.floor.or(matches!(case.items[0].1, Op::Subtract(_)).then_some(0));
    let mut outcomes = Vec::new();
    for (key, op) in &case.items {
        let Some(value) = after.get_mut(key) else {
            outcomes.push(Outcome::Missing);
            met.push(0);
            continue;
        };
        let found = *value;
        met.push(found);
        let left = match *op {
            Op::Subtract(by) => found.checked_sub(by),
            Op::Add(by) => found.checked_add(by),
            Op::CompareAndSet(expected, new) => (found == expected).then_some(new),
            Op::SetIf(low, high, new) => (low <= found && found <= high).then_some(new),
        };
        let in_bounds = |left: &i64| {
            range.contains(left) && floor.is_none_or(|floor| *left >= floor) && case.cap.is_none_or(|cap| *left <= cap)
        };
        outcomes.push(match left.filter(in_bounds) {
            Some(left) => {
                *value = left;
                Outcome::Applied { value: left }
            }
            None => Outcome::Insufficient { found },
        });
    }
    if case.together && outcomes.iter().any(|outcome| !outcome.is_applied()) {
        for (outcome, found) in outcomes.iter_mut().zip(met) {
            if outcome.is_applied() {
                *outcome = Outcome::Withheld { found };
            }
        }
    } else {
        *rows = after;
    }
    outcomes
}

async fn check<E: Engine, R: Resource<Key = i64>>(
    test: &TestDb,
    db: &Db<E>,
    rows: &mut BTreeMap<i64, i64>,
    case: &Case,
    range: RangeInclusive<i64>,
) where
    rowlock::Start: rowlock::Before<R>,
{
    let table = if range == (i64::MIN..=i64::MAX) { "wide" } else { "narrow" };
    let expected = expect(case, rows, range);
    let change = change::<R>(case);
    let outcomes = match case.alone {
        true => db.kind("alone").update(change).await,
        false => db.transaction(async |tx| Ok::<_, Error>(tx.update(change.clone()).await?.1)).await,
    };
    let outcomes: Vec<Outcome> = outcomes.unwrap().into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, expected, "{case:?}");
    for (key, value) in rows.iter() {
        let stored = test.value(&format!("select n from {table} where id = {key}")).await;
        assert_eq!(stored, value.to_string(), "key {key} after {case:?}");
    }
}

fn run<E: Engine, R: Resource<Key = i64>>(test: &TestDb, db: &Db<E>, size: i64, range: RangeInclusive<i64>)
where
    rowlock::Start: rowlock::Before<R>,
{
    let mut rows: BTreeMap<i64, i64> = (1..=6).map(|key| (key, 0)).collect();
    let mut runner =
        TestRunner::new(Config { cases: BATCHES, max_shrink_iters: 0, failure_persistence: None, ..Config::default() });
    let rows = std::cell::RefCell::new(&mut rows);
    let result = tokio::task::block_in_place(|| {
        runner.run(&case(size), |case| {
            let mut rows = rows.borrow_mut();
            let check = check::<E, R>(test, db, &mut rows, &case, range.clone());
            tokio::runtime::Handle::current().block_on(check);
            Ok(())
        })
    });
    result.unwrap();
}

engines! {
    async fn outcomes_are_those_of_the_model<E: Engine>(test: TestDb) {
        test.execute("create table wide (id bigint primary key not null, n bigint not null)").await;
        test.execute("create table narrow (id bigint primary key not null, n smallint not null)").await;
        for table in ["wide", "narrow"] {
            test.execute(&format!("insert into {table} values (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)")).await;
        }
        let db: Db<E> = Db::builder(Two).open(test.pool_of::<E>(2).await).await.unwrap();
        run::<E, Wide>(&test, &db, 20, i64::MIN..=i64::MAX);
        // SQLite's columns are all as wide.
        let narrow = if test.family() == rowlock_testing::Family::Sqlite { i64::MIN..=i64::MAX } else { -32_768..=32_767 };
        if test.family() != rowlock_testing::Family::Sqlite {
            run::<E, Narrow>(&test, &db, 32_767, narrow);
        }
    }
}
