//! A write whose precondition does not hold, or was not checked, changes nothing.

use ferrite_core::version::{Precondition, Version};
use ferrite_core::writer::serve;
use ferrite_proto::error::Kind;
use ferrite_proto::issue::Label;
use ferrite_proto::metadata::PRECONDITION;
use ferrite_rpc::version;
use http::{HeaderMap, HeaderName};

use crate::args;
use crate::testing::on_each;
use crate::{Db, DbError};

const TABLE: &str = "CREATE TABLE labels (id BIGINT, name TEXT)";
const ADD: &str = "INSERT INTO labels (id, name) VALUES ($1, $2)";

fn label(name: &str) -> Label {
    Label { id: 5, name: name.to_owned(), ..Label::default() }
}

async fn serve_with<T>(precondition: Precondition, request: impl Future<Output = T>) -> T {
    serve(async {
        let value = precondition.to_string().parse().unwrap();
        version::begin(&HeaderMap::from_iter([(HeaderName::from_static(PRECONDITION), value)]));
        request.await
    })
    .await
}

/// Adds a label in a transaction, besides one named `current`.
async fn add(db: &Db, current: &str) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    tx.require_version(Some(&label(current)))?;
    tx.execute(ADD, &args![1, "new"]).await?;
    tx.commit().await
}

fn is_refused<T>(outcome: &Result<T, DbError>) -> bool {
    matches!(outcome, Err(error) if error.classify() == (Kind::Aborted, "PRECONDITION_FAILED"))
}

async fn count(db: &Db) -> i64 {
    db.one::<(i64,)>("SELECT COUNT(*) FROM labels", &[]).await.unwrap().0
}

#[tokio::test]
async fn a_write_is_done_only_if_its_resource_is_as_the_precondition_says() {
    on_each(|test| async move {
        let db = &test.db;
        db.execute(TABLE, &[]).await.unwrap();
        let of_bug = || Precondition::Versions(vec![Version::of(&label("bug"))]);
        serve_with(of_bug(), add(db, "bug")).await.unwrap();
        serve_with(Precondition::Exists, add(db, "bug")).await.unwrap();
        serve(add(db, "bug")).await.unwrap();
        assert_eq!(count(db).await, 3);
        for (precondition, current) in
            [(of_bug(), "fault"), (Precondition::Never, "bug"), (Precondition::Absent, "bug")]
        {
            assert!(is_refused(&serve_with(precondition, add(db, current)).await));
        }
        assert_eq!(count(db).await, 3);
    })
    .await;
}

#[tokio::test]
async fn a_write_that_did_not_check_its_precondition_is_not_committed() {
    on_each(|test| async move {
        let db = &test.db;
        db.execute(TABLE, &[]).await.unwrap();
        let in_transaction = async {
            let mut tx = db.begin().await?;
            tx.execute(ADD, &args![1, "new"]).await?;
            tx.commit().await
        };
        assert!(is_refused(&serve_with(Precondition::Exists, in_transaction).await));
        let by_returning = async {
            let tx = db.begin().await?;
            tx.commit_returning::<(i64,)>("INSERT INTO labels (id, name) VALUES ($1, $2) RETURNING id", &args![1, "x"])
                .await
        };
        assert!(is_refused(&serve_with(Precondition::Exists, by_returning).await));
        let by_statement = async { db.execute(ADD, &args![1, "new"]).await };
        assert!(is_refused(&serve_with(Precondition::Exists, by_statement).await));
        let relaxed = async { db.all_relaxed::<(i64,)>(&[(ADD, 2)], &args![1, "new"]).await };
        assert!(is_refused(&serve_with(Precondition::Exists, relaxed).await));
        assert_eq!(count(db).await, 0);
    })
    .await;
}
