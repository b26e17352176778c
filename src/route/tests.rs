use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text).unwrap().within("primary", "orders")
}

/// The target where a regex has captured `eu` as its first group, which is called `region`.
fn target(text: &str, topic: &'static str) -> Result<String, RouteError> {
    pattern(text).target(topic, |group| matches!(group, "1" | "region").then_some("eu"))
}

#[test]
fn places_are_filled_in() {
    let cases = [
        ("${topic}", "t"),
        ("${source}.${topic}", "primary.t"),
        ("${topic}-${flow}_copy", "t-orders_copy"),
        ("${1}.${region}", "eu.eu"),
        ("${topic}${topic}", "tt"),
    ];
    for (text, expected) in cases {
        assert_eq!(target(text, "t").as_deref(), Ok(expected));
    }
    assert_eq!(pattern("a${1}b${topic}${region}").groups().collect::<Vec<_>>(), ["1", "region"]);
}

#[test]
fn what_no_regex_has_captured_is_named() {
    let error = target("${topic}.${2}", "t").unwrap_err();
    assert_eq!(error, RouteError::NotCaptured { topic: "t".to_owned(), group: "2".to_owned() });
}

#[test]
fn patterns_that_make_no_names_are_refused() {
    use PatternError::{Character, Constant, Dollar, Place};
    let cases = [
        ("$topic", Dollar),
        ("${topic", Dollar),
        ("${topic}$", Dollar),
        ("${}${topic}", Place(String::new())),
        ("${a.b}", Place("a.b".to_owned())),
        ("${file:/x}", Place("file:/x".to_owned())),
        ("${topic} copy", Character(' ')),
        ("${topic}}", Character('}')),
        ("copy", Constant),
        ("${source}", Constant),
        ("", Constant),
    ];
    for (text, expected) in cases {
        assert_eq!(NamePattern::parse(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn names_that_no_topic_may_have_are_refused() {
    let long: &'static str = "x".repeat(TOPIC_CHARS_MAX).leak();
    for (text, topic) in [("_${topic}", "_t"), ("${topic}", "."), ("${topic}.", "."), ("${topic}x", long)] {
        assert!(matches!(target(text, topic), Err(RouteError::Illegal { .. })), "{text} {topic}");
    }
    assert!(target("${topic}", long).is_ok());
}

#[test]
fn topics_that_meet_are_all_left_out() {
    let first = |topic: &str| Ok(topic[..1].to_owned());
    let routes = targets(["b2", "a1", "b1", "b3", "c1"].into_iter(), first);
    assert_eq!((&routes["a1"], &routes["c1"]), (&Ok("a".to_owned()), &Ok("c".to_owned())));
    for (topic, other) in [("b1", "b2"), ("b2", "b1"), ("b3", "b1")] {
        let meets = RouteError::Meets { topic: topic.into(), other: other.into(), target: "b".into() };
        assert_eq!(routes[topic], Err(meets));
    }
}

#[test]
fn partitions_follow_the_mapping() {
    use Mapping::{Key, Modulo, Same};
    let whole = |partition| Some(Placement::Whole(partition));
    assert_eq!([Same.place(2, 3), Same.place(3, 3), Same.place(0, 0)], [whole(2), None, None]);
    assert_eq!([Modulo.place(2, 3), Modulo.place(3, 3), Modulo.place(7, 1)], [whole(2), whole(0), whole(0)]);
    assert_eq!([Modulo.place(0, 0), Key.place(5, 0)], [None, None]);
    assert_eq!(Key.place(7, 3), Some(Placement::ByKey { count: 3, keyless: 1 }));
    assert_eq!(Key.place(7, 1), whole(0), "nothing needs to be taken apart for a single partition");
}

proptest! {
    #[test]
    fn what_comes_out_is_a_name_that_kafka_takes(text in "(\\$\\{(topic|source|flow|1)\\}|[a-zA-Z0-9._-]|\\PC){0,8}", topic in "[a-z_.]{1,5}") {
        if let Ok(pattern) = NamePattern::parse(&text)
            && let Ok(target) = pattern.within("s", "f").target(&topic, |_| Some("g"))
        {
            prop_assert!(is_legal(&target) && !is_internal(&target), "{text}: {target}");
        }
    }
}
