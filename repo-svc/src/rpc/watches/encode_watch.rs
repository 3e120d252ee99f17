use ferrite_kit::timestamp;
use ferrite_proto::repo::Watch;

use crate::store::Repository;

/// Encodes the watch on a repository that began at a time (microseconds since 1970).
pub(super) fn watch(repository: Repository, created_us: i64) -> Watch {
    Watch { create_time: Some(timestamp(created_us)), owner: repository.owner_name, name: repository.name }
}
