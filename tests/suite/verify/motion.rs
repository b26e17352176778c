//! What moves while `verify` reads, or has moved before: traffic behind the cuts, and retention on either side.

use super::*;

/// Compares a topic and does something once the first pass is over, thus after the cuts.
fn compare_while(topic: &str, act: impl Fn()) -> Report {
    let mut is_first = true;
    let report = verify(&comparison(topic), &mut |progress| {
        if progress.read == progress.total && is_first {
            is_first = false;
            act();
        }
    });
    let report = report.unwrap();
    println!("{report}");
    assert!(!is_first);
    report
}

#[test]
fn a_copy_that_comes_late_is_not_missing() {
    let topic = create_on_both("late", 1);
    let records: Vec<Written> = (0..10).map(numbered).collect();
    write(&pair().source, &topic, 0, &records);
    write(&pair().target, &topic, 0, &records[..7]);
    let report = compare_while(&topic, || write(&pair().target, &topic, 0, &records[7..9]));
    assert_eq!(counts(&report.totals()), [10, 7, 1, 0, 0]);
    assert_eq!(report.totals().target.behind, 2);
    assert_eq!(report.topics[0].partitions[0].examples.missing, [9]);
}

#[test]
fn a_record_that_the_source_wrote_behind_its_cut_is_not_extra() {
    let topic = create_on_both("ahead", 1);
    let records: Vec<Written> = (0..10).map(numbered).collect();
    write(&pair().source, &topic, 0, &records[..7]);
    write(&pair().target, &topic, 0, &records);
    let again = [&records[7..9], &records[..1]].concat();
    write(&pair().target, &topic, 0, &records[..1]);
    let report = compare_while(&topic, || write(&pair().source, &topic, 0, &again));
    assert_eq!(counts(&report.totals()), [7, 11, 0, 1, 0]);
    assert_eq!(report.totals().source.behind, 3);
    assert_eq!(report.topics[0].partitions[0].examples.extra, [9]);
}

#[test]
fn verify_waits_for_what_is_missing() {
    let topic = create_on_both("awaited", 1);
    let records: Vec<Written> = (0..10).map(numbered).collect();
    write(&pair().source, &topic, 0, &records);
    write(&pair().target, &topic, 0, &records[..9]);
    let patient = Comparison { wait: DEADLINE, ..comparison(&topic) };
    let mut calls = 0;
    let report = verify(&patient, &mut |_| {
        calls += 1;
        // The first looks behind the cut are over by then.
        if calls == 6 {
            write(&pair().target, &topic, 0, &records[9..]);
        }
    });
    let totals = report.unwrap().totals();
    assert_eq!((totals.missing, totals.target.behind), (0, 1));
}

#[test]
fn a_key_in_motion_is_not_judged() {
    let topic = unique("motion");
    let (source, target) = (&pair().source, &pair().target);
    for cluster in [source, target] {
        cluster.create_topic(&topic, 1, &[("cleanup.policy", "compact")]).unwrap();
    }
    write(source, &topic, 0, &[written(b"moved", b"1"), written(b"gone", b"1"), written(b"lost", b"1")]);
    write(target, &topic, 0, &[written(b"moved", b"2")]);
    let act = || {
        let tombstone = Written { value: None, ..written(b"gone", b"") };
        write(source, &topic, 0, &[written(b"moved", b"2"), tombstone]);
    };
    // On the basis of keys there is no census: the callback is called when all was read.
    let report = compare_while(&topic, act);
    let totals = report.totals();
    assert_eq!((totals.missing, totals.extra, totals.changed), (1, 0, 0));
    assert_eq!(report.topics[0].partitions[0].examples.missing, [2]);
}

/// Records two minutes apart, so that their age tells which were removed.
fn spread(numbers: std::ops::Range<u32>) -> Vec<Written> {
    numbers.map(|number| numbered(number * 120_000)).collect()
}

#[test]
fn what_retention_removed_from_a_side_is_expired_and_not_lost() {
    for from_source in [true, false] {
        let topic = create_on_both("expired", 1);
        let records = spread(0..20);
        let (source, target) = (&pair().source, &pair().target);
        write(source, &topic, 0, &records);
        write(target, &topic, 0, &records);
        let shortened = if from_source { source } else { target };
        remove_below(shortened, &topic, 5);
        let report = compare(&topic);
        assert_eq!(report.verdict(), Verdict::Complete);
        let totals = report.totals();
        let expired = if from_source { [5, 0] } else { [0, 5] };
        assert_eq!([totals.source.expired, totals.target.expired], expired);
    }
}

#[test]
fn a_young_record_is_missing_whatever_retention_removed() {
    let topic = create_on_both("young", 1);
    let records = spread(0..20);
    write(&pair().source, &topic, 0, &records);
    write(&pair().target, &topic, 0, &records[..19]);
    remove_below(&pair().target, &topic, 5);
    let totals = compare(&topic).totals();
    assert_eq!((totals.missing, totals.target.expired), (1, 5));
}

#[test]
fn retention_may_remove_records_while_verify_reads() {
    let topic = create_on_both("removed", 1);
    let records = spread(0..2_000);
    write(&pair().source, &topic, 0, &records);
    write(&pair().target, &topic, 0, &[&records[..], &records[1_000..1_001]].concat());
    let act = || remove_below(&pair().source, &topic, 1_500);
    let report = compare_while(&topic, act);
    let totals = report.totals();
    assert_eq!((totals.missing, totals.extra), (0, 0));
    assert!(totals.source.expired > 0, "{totals:?}");
}
