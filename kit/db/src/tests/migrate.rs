use super::*;

#[tokio::test]
async fn migrations_run_twice_do_nothing_the_second_time() {
    on_each(|test| async move {
        let db = schema(&test).await;
        db.execute(ADD_COUNTER, &args![1_i64, 7_i64]).await.unwrap();
        schema(&test).await;
        assert_eq!(db.one::<(i64,)>(COUNT, &[]).await.unwrap(), (7,));
    })
    .await;
}

#[tokio::test]
async fn migrations_at_once_run_one_after_the_other() {
    on_each(|test| async move {
        let mut runs = JoinSet::new();
        for _ in 0..4 {
            let url = test.url.clone();
            runs.spawn(async move {
                let db = Db::open(&url, 2).await.unwrap();
                schema(&TestDb { db: db.clone(), url }).await;
                db.close().await;
            });
        }
        while let Some(ended) = runs.join_next().await {
            ended.unwrap();
        }
        test.db.execute(ADD_COUNTER, &args![1_i64, 7_i64]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_schema_newer_than_the_program_is_refused() {
    on_each(|test| async move {
        let (one, two) = ("CREATE TABLE a (x BIGINT)", "CREATE TABLE b (x BIGINT)");
        let new = migrations(&[one, two], &[one, two]).await;
        let old = migrations(&[one], &[one]).await;
        assert!(matches!(new.check(&test.db).await, Err(DbError::Migrate(_))), "an empty database is behind");
        old.run(&test.db).await.unwrap();
        old.check(&test.db).await.unwrap();
        assert!(matches!(new.check(&test.db).await, Err(DbError::Migrate(_))), "the schema is behind");
        new.run(&test.db).await.unwrap();
        new.check(&test.db).await.unwrap();
        assert!(matches!(old.check(&test.db).await, Err(DbError::Migrate(_))), "the program is behind");
        assert!(matches!(old.run(&test.db).await, Err(DbError::Migrate(_))), "the program is behind");
    })
    .await;
}

#[tokio::test]
async fn a_schema_of_another_service_is_not_taken_for_a_newer_one() {
    on_each(|test| async move {
        let (one, two) = ("CREATE TABLE a (x BIGINT)", "CREATE TABLE b (x BIGINT)");
        migrations(&[one, two], &[one, two]).await.run(&test.db).await.unwrap();
        let other = migrations(&[two], &[two]).await;
        for outcome in [other.run(&test.db).await, other.check(&test.db).await] {
            let error = outcome.unwrap_err();
            assert!(!error.is_newer_schema() && error.to_string().contains("another build"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_migration_that_fails_changes_nothing_and_can_be_repeated() {
    on_each(|test| async move {
        let (bad, good) = ("CREATE TABLE a (x BIGINT); CREATE TABLE a (x BIGINT)", "CREATE TABLE a (x BIGINT)");
        assert!(migrations(&[bad], &[bad]).await.run(&test.db).await.is_err());
        migrations(&[good], &[good]).await.run(&test.db).await.unwrap();
    })
    .await;
}
