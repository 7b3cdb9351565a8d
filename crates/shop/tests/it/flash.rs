//! Flash sales: many want one item; each has an exact answer, one order a key, and a crash takes nothing back.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use reqwest::Method;
use rowlock_testing::{Connection, Family, TestDb};
use serde_json::{Value, json};
use shop::flash::NewFlashOrder;
use shop::problem::Problem;

use crate::support::{Answer, Town, id, settings};

async fn buy(town: &Town, item: i64, key: &str, account: i64, quantity: i64) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    let body = json!({"account": account, "quantity": quantity}).to_string();
    town.send(Method::POST, &format!("/flash-sales/{item}/orders"), &headers, body.into_bytes()).await
}

/// What a merger grants, without what follows.
async fn leave(someone: &mut Connection, buyer: i64, item: i64, key: &str, quantity: i64) {
    let take = format!("update inventories set stock = stock - {quantity} where id = {item}");
    let enter = format!(
        "insert into flash_ledger (request, place, quantity, outcome, value) \
         values ('{buyer} {key}', 'inventories {item}', {quantity}, 0, 0)"
    );
    for statement in [take, enter] {
        someone.run(&statement).await.unwrap();
    }
}

rowlock_testing::engines! {
    /// 64 buyers at once, twice, for 50 pieces: 50 are sold, 78 are told that there are none.
    async fn more_buyers_than_pieces_get_exactly_the_pieces(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let tea = town.item(seller, 5, 50).await;
        let mut orders = BTreeSet::new();
        let mut refused = 0;
        for wave in 0..2 {
            let buyers = (0..64).map(async |n| buy(&town, tea, &format!("{wave}-{n}"), buyer, 1).await);
            for answer in join_all(buyers).await {
                if answer.status == 409 {
                    let problem = answer.expect(409);
                    assert_eq!(problem["type"], "urn:shop:out-of-stock");
                    assert_eq!(problem["detail"], format!("item {tea} has 0 in stock, 1 are wanted"));
                    refused += 1;
                } else {
                    let location = answer.headers["location"].to_str().unwrap().to_owned();
                    let order = answer.expect(201);
                    assert_eq!(location, format!("/orders/{}", id(&order)));
                    assert_eq!(town.get(&location).await.expect(200), order);
                    assert!(orders.insert(id(&order)));
                }
            }
        }
        assert_eq!((orders.len(), refused), (50, 78));
        assert_eq!(town.stock(tea).await, [50, 0, 50, 0]);
        // It is an order like any other.
        let mut orders = orders.into_iter();
        let (paid, cancelled) = (orders.next().unwrap(), orders.next().unwrap());
        assert_eq!(town.paid("evt_1", paid, 5).await["outcome"], "applied");
        town.post(&format!("/orders/{cancelled}/cancel"), Value::Null).await.expect(200);
        assert_eq!(town.stock(tea).await, [50, 1, 48, 1]);
        town.close().await;
    }

    /// A smaller request fits where a larger does not; the quantities are what is sold.
    async fn pieces_are_counted_and_not_requests(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 100).await;
        let buyers = (0..64).map(async |n: i64| (n % 7 + 1, buy(&town, tea, &format!("k{n}"), buyer, n % 7 + 1).await));
        let mut sold = 0;
        for (quantity, answer) in join_all(buyers).await {
            if answer.status == 201 {
                sold += quantity;
            } else {
                answer.expect(409);
            }
        }
        let [delivered, stock, reserved, _] = town.stock(tea).await;
        assert_eq!((delivered, stock + sold, reserved), (100, 100, sold));
        assert!(stock < 7, "{stock} are left, and 7 were refused");
        town.close().await;
    }

    async fn a_key_that_comes_again_is_one_order_and_the_same_answer(db: TestDb) {
        let settings = settings(&db, false);
        let town = Town::with(settings.clone()).await;
        let (buyer, other) = (town.account(1_000).await, town.account(1_000).await);
        let tea = town.item(buyer, 5, 10).await;
        // At once, and one after the other.
        let answers = join_all((0..8).map(|_| buy(&town, tea, "once", buyer, 2))).await;
        let mut answers: Vec<Value> = answers.into_iter().map(|answer| answer.expect(201)).collect();
        answers.push(buy(&town, tea, "once", buyer, 2).await.expect(201));
        let order = answers.pop().unwrap();
        assert_eq!((order["total"].as_i64(), order["status"].as_str()), (Some(10), Some("open")));
        assert_eq!(order["lines"], json!([{"line": 1, "item": tea, "quantity": 2, "price": 5, "seller": buyer}]));
        assert!(answers.iter().all(|answer| *answer == order), "{answers:#?}");
        assert_eq!(town.stock(tea).await, [10, 8, 2, 0]);
        // A key is its account's.
        let another = buy(&town, tea, "once", other, 3).await.expect(201);
        assert_ne!(id(&another), id(&order));
        // The first answer stands, though there is enough by now.
        let refused = buy(&town, tea, "more", buyer, 6).await.expect(409);
        town.post("/deliveries", json!({"lines": [{"item": tea, "quantity": 5}]})).await;
        assert_eq!(buy(&town, tea, "more", buyer, 6).await.expect(409), refused);
        buy(&town, tea, "more-1", buyer, 6).await.expect(201);
        let reused = buy(&town, tea, "once", buyer, 1).await.expect(422);
        assert_eq!((reused["type"].as_str(), reused["at"].as_str()), (Some("urn:shop:key-reused"), Some("idempotency-key")));
        town.close().await;
        // The shop that is started next knows it as well.
        let town = Town::with(settings).await;
        assert_eq!(buy(&town, tea, "once", buyer, 2).await.expect(201), order);
        assert_eq!(buy(&town, tea, "more", buyer, 6).await.expect(409), refused);
        assert_eq!(town.stock(tea).await, [15, 4, 11, 0]);
        town.close().await;
    }

    /// What a crash between the two transactions leaves: granted, with its row in the ledger, and no order.
    async fn a_grant_without_an_order_is_counted_and_finished(db: TestDb) {
        let settings = settings(&db, false);
        let town = Town::with(settings.clone()).await;
        let buyer = town.account(1_000).await;
        let (tea, cup) = (town.item(buyer, 5, 200).await, town.item(buyer, 7, 200).await);
        let mut someone = db.connect().await;
        leave(&mut someone, buyer, tea, "left", 2).await;
        assert_eq!(town.stock(tea).await, [200, 198, 0, 0]);
        // Counted by the ledger meanwhile; a piece that is nowhere is found.
        let broken = || async { town.running.shop().check().await.unwrap().broken().collect::<Vec<_>>() };
        assert_eq!(broken().await, Vec::<String>::new());
        someone.run(&format!("update inventories set stock = stock - 1 where id = {tea}")).await.unwrap();
        let found = broken().await;
        assert!(found.len() == 1 && found[0].ends_with(&format!("item {tea}: 199, should be 200")), "{found:?}");
        someone.run(&format!("update inventories set stock = stock + 1 where id = {tea}")).await.unwrap();
        // The buyer who asks again finishes his own.
        let order = buy(&town, tea, "left", buyer, 2).await.expect(201);
        assert_eq!(town.stock(tea).await, [200, 198, 2, 0]);
        // More than one transaction takes; two sweepers at once, and a buyer beside them.
        someone.run("begin").await.unwrap();
        for n in 0..120 {
            leave(&mut someone, buyer, tea, &format!("tea-{n}"), 1).await;
            leave(&mut someone, buyer, cup, &format!("cup-{n}"), 1).await;
        }
        someone.run("commit").await.unwrap();
        let shop = town.running.shop();
        let (one, two, again) = tokio::join!(shop.settle(), shop.settle(), buy(&town, cup, "cup-100", buyer, 1));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one + two >= 239, "{one} {two}");
        again.expect(201);
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([200, 78, 122, 0], [200, 80, 120, 0]));
        assert_eq!(db.value("select count(*) from orders").await, "241");
        leave(&mut someone, buyer, tea, "last", 1).await;
        someone.close().await.unwrap();
        town.close().await;
        // A start finishes what is left, before anyone asks.
        let town = Town::with(settings).await;
        assert_eq!(town.stock(tea).await, [200, 77, 123, 0]);
        assert_eq!(buy(&town, tea, "left", buyer, 2).await.expect(201), order);
        assert_eq!(buy(&town, tea, "last", buyer, 1).await.expect(201)["total"], 5);
        assert_eq!(town.running.shop().settle().await.unwrap(), 0);
        town.close().await;
    }

    /// The second transaction fails: the buyer is told what he has, and that it is worth asking again.
    async fn what_cannot_be_written_yet_is_told_and_finished(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 10).await;
        let mut someone = db.connect().await;
        someone.run("alter table order_lines rename to elsewhere").await.unwrap();
        let answer = buy(&town, tea, "k", buyer, 3).await;
        assert_eq!(answer.headers["retry-after"], "1", "{:#}", answer.body);
        assert_eq!(answer.expect(503)["type"], "urn:shop:unfinished");
        assert_eq!(town.stock(tea).await, [10, 7, 0, 0]);
        someone.run("alter table elsewhere rename to order_lines").await.unwrap();
        someone.close().await.unwrap();
        let order = buy(&town, tea, "k", buyer, 3).await.expect(201);
        assert_eq!(buy(&town, tea, "k", buyer, 3).await.expect(201), order);
        assert_eq!(town.stock(tea).await, [10, 7, 3, 0]);
        town.close().await;
    }

    async fn mistakes_are_told_and_take_nothing(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let (tea, dear) = (town.item(buyer, 5, 10).await, town.item(buyer, 1_000_000_000, 100_000).await);
        let long = "k".repeat(201);
        for (item, key, account, quantity, status, at, says) in [
            (1, "k", buyer, 1, 404, None, "no item 1"),
            (tea, "k", 1, 1, 422, Some("account"), "no account 1"),
            (tea, "k", buyer, 0, 422, Some("quantity"), "from 1"),
            (tea, "k", buyer, -1, 422, Some("quantity"), "from 1"),
            (tea, "k", buyer, i64::MAX, 422, Some("quantity"), "from 1"),
            (dear, "k", buyer, 1_001, 422, Some("quantity"), "the total"),
            (tea, "k", buyer, 11, 409, None, "has 10 in stock, 11 are wanted"),
            (tea, "", buyer, 1, 400, Some("idempotency-key"), "visible"),
            (tea, "a b", buyer, 1, 400, Some("idempotency-key"), "visible"),
            (tea, "a\tb", buyer, 1, 400, Some("idempotency-key"), "visible"),
            (tea, &long, buyer, 1, 400, Some("idempotency-key"), "200"),
            (0, "k", buyer, 1, 400, Some("id"), "`0`"),
        ] {
            let problem = buy(&town, item, key, account, quantity).await.expect(status);
            assert_eq!(problem["at"].as_str(), at, "{problem:#}");
            assert!(problem["detail"].as_str().unwrap().contains(says), "{problem:#}");
        }
        let path = format!("/flash-sales/{tea}/orders");
        let problem = town.post(&path, json!({"account": buyer, "quantity": 1})).await.expect(400);
        assert_eq!(problem["type"], "urn:shop:idempotency-key", "{problem:#}");
        for (body, at) in [("{}", None), (r#"{"account": 1, "quantity": 1.5}"#, Some("quantity")), (r#"{"pay": true}"#, Some("pay"))] {
            let headers = [("content-type", "application/json"), ("idempotency-key", "k2")];
            let answer = town.send(Method::POST, &path, &headers, body.into()).await.expect(422);
            assert_eq!(answer["at"].as_str(), at, "{answer:#}");
        }
        // The longest key, of any visible characters.
        let key: String = ('!'..='~').chain('!'..='~').collect::<String>() + "0123456789ab";
        let order = buy(&town, tea, &key, buyer, 1).await.expect(201);
        assert_eq!(buy(&town, tea, &key, buyer, 1).await.expect(201), order);
        assert_eq!((town.stock(tea).await, town.stock(dear).await), ([10, 9, 1, 0], [100_000, 100_000, 0, 0]));
        town.close().await;
    }
}

rowlock_testing::engines! { servers:
    /// Someone sits on the item: who comes when the queue is full is turned away at once, and who waits is served.
    async fn a_full_queue_is_told(db: TestDb) {
        let town = Town::open(&db).await;
        assert_ne!(db.family(), Family::Sqlite);
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 10_000).await;
        let mut someone = db.connect().await;
        someone.run("begin").await.unwrap();
        someone.run(&format!("select id from inventories where id = {tea} for update")).await.unwrap();
        let (away, mut turned) = tokio::sync::mpsc::unbounded_channel();
        let shop = town.running.shop();
        let new = NewFlashOrder { account: buyer, quantity: 1 };
        // One item may fill half of the 4096.
        let buyers = (0..2_300).map(|n| {
            let away = away.clone();
            async move {
                match shop.buy(tea, &format!("k{n}"), new).await {
                    Ok(_) => 1,
                    Err(error) => {
                        away.send(Problem::from(error)).unwrap();
                        0
                    }
                }
            }
        });
        let release = async {
            let problem = turned.recv().await.unwrap();
            let response = axum::response::IntoResponse::into_response(problem);
            assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "1"));
            someone.run("rollback").await.unwrap();
        };
        let (sold, ()) = tokio::join!(join_all(buyers), release);
        let sold: i64 = sold.into_iter().sum();
        assert!((2_048..2_300).contains(&sold), "{sold}");
        assert_eq!(town.stock(tea).await, [10_000, 10_000 - sold, sold, 0]);
        someone.close().await.unwrap();
        town.close().await;
    }
}
