//! A person's own files become answers, by the commands of the README.

use std::{fs, time::Duration};

use pointsman_testkit::{Cluster, ClusterOptions};
use serde_json::json;

/// CSV and a folder of Parquet, pushed, loaded and asked; the same push again changes nothing, another content under
/// the same name is refused, and what does not fit the columns is named.
#[test]
fn own_csv_and_parquet_are_pushed_loaded_and_queried() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let folder = tempfile::tempdir()?;
    let csv = folder.path().join("events.csv");
    fs::write(
        &csv,
        "id,kind,price,day\n1,view,1.5,2026-01-02\n2,buy,20.25,2026-01-03\n3,view,,2026-01-03\n",
    )?;
    let csv = csv.to_string_lossy().into_owned();
    cluster.run(&["segment", "push", "--collection", "events", &csv])?;
    cluster.run(&["load", "events", "--resource-groups", "east,west", "--wait"])?;

    let parquet = folder.path().join("countries");
    fs::create_dir(&parquet)?;
    for entry in fs::read_dir(cluster.objects("nation"))? {
        let path = entry?.path();
        fs::copy(&path, parquet.join(path.file_name().unwrap_or_default()))?;
    }
    cluster.run(&["segment", "push", "--collection", "countries", &parquet.to_string_lossy()])?;
    cluster.run(&["load", "countries", "--resource-groups", "east", "--wait"])?;

    let sql = cluster.sql();
    let answer = sql.query("SELECT kind, count(*), sum(price) FROM events GROUP BY kind ORDER BY kind")?;
    assert_eq!(
        answer.rows()?,
        [vec![json!("buy"), json!(1), json!(20.25)], vec![json!("view"), json!(2), json!(1.5)]]
    );
    let answer = sql.query("SELECT count(*) FROM countries WHERE n_name = 'FRANCE'")?;
    assert_eq!(answer.rows()?, [vec![json!(1)]]);

    cluster.run(&["segment", "push", "--collection", "events", &csv])?;
    assert_eq!(sql.query("SELECT count(*) FROM events")?.rows()?, [vec![json!(3)]]);
    fs::write(&csv, "id,kind,price,day\n9,view,1.5,2026-01-02\n")?;
    let refused = cluster.run(&["segment", "push", "--collection", "events", &csv]);
    assert!(refused.is_err_and(|error| error.to_string().contains("events")));
    let other = folder.path().join("other.csv");
    fs::write(&other, "id,kind,price,day\nx,view,1.5,2026-01-02\n")?;
    let refused = cluster.run(&["segment", "push", "--collection", "events", &other.to_string_lossy()]);
    assert!(
        refused.is_err_and(|error| error.to_string().contains("line 2, column 'id': wanted Int64, got 'x'"))
    );
    fs::write(&other, "id,name,price,day\n1,view,1.5,2026-01-02\n")?;
    let refused = cluster.run(&["segment", "push", "--collection", "events", &other.to_string_lossy()]);
    assert!(refused.is_err_and(|error| error.to_string().contains("column 'kind': wanted Utf8")));

    cluster.run(&["release", "events"])?;
    let answer = pointsman_testkit::eventually("a released collection", super::LIMIT, || {
        let answer = sql.ask("SELECT count(*) FROM events")?;
        anyhow::ensure!(answer.code().is_some(), "it still answers");
        Ok(answer)
    })?;
    assert_eq!(answer.code(), Some(410), "{answer:?}");
    Ok(())
}

/// A load that has nowhere to go says so, at the command line and by its exit status.
#[test]
fn wrong_names_are_told_with_what_would_be_right() -> anyhow::Result<()> {
    let cluster = Cluster::start(ClusterOptions::default())?;
    for (args, words) in [
        (&["load", "nowhere"][..], "nowhere"),
        (&["segment", "push", "--collection", "x", "/nonexistent/file.parquet"][..], "file.parquet"),
        (&["collection", "show", "nowhere"][..], "nowhere"),
    ] {
        let output = cluster.pointsman(args).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(words), "{args:?}: {} {text}", output.status);
    }
    let usage = cluster.pointsman(&["load"]).output()?;
    assert_eq!(usage.status.code(), Some(2));
    Ok(())
}

/// Nothing is lost when the whole cluster stops and starts on the same folder.
#[test]
fn a_cluster_finds_everything_again_after_a_stop() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = ClusterOptions { data_dir: Some(folder.path().join("data")), ..ClusterOptions::default() };
    let csv = folder.path().join("numbers.csv");
    fs::write(&csv, "n\n1\n2\n3\n")?;
    let mut cluster = Cluster::start(options.clone())?;
    cluster.run(&["segment", "push", "--collection", "numbers", &csv.to_string_lossy()])?;
    cluster.run(&["load", "numbers", "--resource-groups", "east,west", "--wait"])?;
    assert!(cluster.dev().stop()?.success());
    drop(cluster);
    let cluster = Cluster::start(options)?;
    cluster.wait_loaded("numbers", Duration::from_secs(60))?;
    assert_eq!(cluster.sql().query("SELECT sum(n) FROM numbers")?.rows()?, [vec![json!(6)]]);
    Ok(())
}
