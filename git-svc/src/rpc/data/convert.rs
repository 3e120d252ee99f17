//! Conversions that several RPCs of `GitDataService` share.

use ferrite_proto::git::{ObjectType, Reference};

use crate::repo::read::object::RefInfo;

pub(super) fn object_type(kind: git2::ObjectType) -> ObjectType {
    match kind {
        git2::ObjectType::Commit => ObjectType::Commit,
        git2::ObjectType::Tree => ObjectType::Tree,
        git2::ObjectType::Blob => ObjectType::Blob,
        git2::ObjectType::Tag => ObjectType::Tag,
        git2::ObjectType::Any => ObjectType::Unspecified,
    }
}

pub(super) fn reference(found: &RefInfo) -> Reference {
    Reference {
        name: found.name.as_bytes().to_vec(),
        object_type: object_type(found.kind).into(),
        object_id: found.target.to_string(),
    }
}
