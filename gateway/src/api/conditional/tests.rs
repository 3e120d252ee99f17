use super::*;

const VERSION: &str = "0123456789abcdef0123456789abcdef";

fn if_match(value: &str) -> IfMatch {
    let headers = HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_str(value).unwrap())]);
    IfMatch::of(&headers).unwrap().unwrap()
}

fn if_none_match(value: &str) -> IfNoneMatch {
    let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())]);
    IfNoneMatch::of(&headers).unwrap().unwrap()
}

#[test]
fn a_write_is_compared_with_the_get_of_its_path_if_that_has_a_tag() {
    let routes = crate::operations();
    let write = |method: &str, path: &str| {
        let path = format!("/api/v1{path}");
        let route = routes.iter().find(|route| route.method == method && route.path == path).unwrap();
        ConditionalWrite::of(route, &routes)
    };
    let label = write("PATCH", "/repos/{owner}/{repo}/labels/{id}").unwrap();
    assert_eq!((label.operation, label.read), (operation::UPDATE_LABEL, Some(operation::GET_LABEL)));
    assert!(label.takes_tags() && !label.is_named_by_body());
    let file = write("PUT", "/repos/{owner}/{repo}/contents/{*file}").unwrap();
    assert!(file.takes_tags() && file.is_named_by_body());
    // The GET of a star has no body, and that of one label of an issue does not exist.
    for path in ["/user/starred/{owner}/{repo}", "/repos/{owner}/{repo}/issues/{index}/labels/{id}"] {
        assert!(!write("DELETE", path).unwrap().takes_tags(), "{path}");
    }
    assert!(write("POST", "/repos/{owner}/{repo}/labels").is_none());
}

#[test]
fn a_version_is_added_to_a_tag_and_taken_off_lists_of_tags() {
    let version = Version::parse(VERSION).unwrap();
    let tagged = format!("\"ab.{VERSION}\"");
    assert_eq!(with_version(&HeaderValue::from_static("\"ab\""), &version).unwrap(), tagged.as_str());
    for (list, expected) in [
        ("*", "*"),
        ("\"ab\"", "\"ab\""),
        ("\"a.b\"", "\"a.b\""),
        ("TAG", "\"ab\""),
        ("W/TAG", "W/\"ab\""),
        ("\"x\", TAG , TAG", "\"x\", \"ab\", \"ab\""),
    ] {
        let list = HeaderValue::try_from(list.replace("TAG", &tagged)).unwrap();
        assert_eq!(without_versions(&list), expected, "{list:?}");
    }
}

#[test]
fn the_versions_of_all_tags_are_the_precondition() {
    let other = VERSION.replace('0', "f");
    for (value, expected) in [
        ("*".to_owned(), "exists".to_owned()),
        (format!("\"ab.{VERSION}\""), format!("version={VERSION}")),
        (format!("\"x\", \"ab.{VERSION}\",\"cd.{other}\""), format!("version={VERSION},{other}")),
        (format!("W/\"ab.{VERSION}\""), "never".to_owned()),
        (format!("\"{VERSION}\", \"ab.{}\"", &VERSION[1..]), "never".to_owned()),
    ] {
        let precondition = of_versions(Some(&if_match(&value)), None).unwrap();
        assert_eq!(precondition.to_string(), expected, "{value}");
    }
}

#[test]
fn a_file_has_none_of_the_versions_of_if_none_match() {
    let other = VERSION.replace('0', "f");
    let (one, both) = (format!("\"ab.{VERSION}\""), format!("\"ab.{VERSION}\", \"cd.{other}\""));
    for (is, is_not, expected) in [
        ("", "*", Some("absent".to_owned())),
        ("*", "*", Some("never".to_owned())),
        (&one, "*", Some("never".to_owned())),
        ("", &one, Some(format!("not-version={VERSION}"))),
        ("", &format!("W/{one}"), Some(format!("not-version={VERSION}"))),
        ("", &both, Some(format!("not-version={VERSION},{other}"))),
        ("", "\"x\"", None),
        (&both, &one, Some(format!("version={other}"))),
        (&one, &both, Some("never".to_owned())),
        (&one, "\"x\"", Some(format!("version={VERSION}"))),
    ] {
        let if_match = (!is.is_empty()).then(|| if_match(is));
        let precondition = of_versions(if_match.as_ref(), Some(&if_none_match(is_not)));
        assert_eq!(precondition.as_ref().map(Precondition::to_string), expected, "{is} {is_not}");
    }
}

#[test]
fn conditions_that_no_service_checks_are_mistakes() {
    let write = |operation, read| ConditionalWrite { method: "PUT", operation, read };
    let (any, tags) = (IfNoneMatch::Any, if_none_match("\"a\""));
    let star = write(operation::STAR_REPOSITORY, None);
    let file = write(operation::PUT_CONTENTS, Some(operation::GET_CONTENTS));
    let label = write(operation::UPDATE_LABEL, Some(operation::GET_LABEL));
    for (write, if_match, if_none_match, is_mistake) in [
        (star, None, &any, true),
        (star, None, &tags, false),
        (file, None, &any, false),
        (file, Some("*"), &any, false),
        (file, Some("*"), &tags, true),
        (file, Some("\"b\""), &tags, false),
        (label, Some("*"), &tags, false),
        (label, None, &any, false),
    ] {
        let if_match = if_match.map(self::if_match);
        let mistake = write.mistake(if_match.as_ref(), Some(if_none_match));
        assert_eq!(mistake.is_some(), is_mistake, "{write:?} {if_match:?} {if_none_match:?}");
    }
    assert!(star.mistake(Some(&IfMatch::Any), None).is_none());
}
