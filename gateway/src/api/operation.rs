//! Names of repo-svc's operations that the gateway asks about when a request is wrong in itself.

macro_rules! operations {
    ($($name:ident = $service:ident / $method:literal;)+) => {
        $(pub(super) const $name: &str = concat!("ferrite.repo.v1.", stringify!($service), "/", $method);)+

        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($service), $method)),+];
    };
}

operations! {
    CREATE_REPOSITORY = RepositoryService / "CreateRepository";
    ADD_EMAILS = ProfileService / "AddEmails";
    DELETE_EMAILS = ProfileService / "DeleteEmails";
    CREATE_PUBLIC_KEY = PublicKeyService / "CreatePublicKey";
    CREATE_ORGANIZATION = OrganizationService / "CreateOrganization";
    UPDATE_ORGANIZATION = OrganizationService / "UpdateOrganization";
    SET_MEMBERSHIP = OrganizationService / "SetMembership";
    SET_MEMBERSHIP_VISIBILITY = OrganizationService / "SetMembershipVisibility";
    CREATE_TEAM = TeamService / "CreateTeam";
    UPDATE_TEAM = TeamService / "UpdateTeam";
    SET_COLLABORATOR = CollaboratorService / "SetCollaborator";
    CREATE_DEPLOY_KEY = DeployKeyService / "CreateDeployKey";
    CREATE_USER = AdministrationService / "CreateUser";
    UPDATE_USER = AdministrationService / "UpdateUser";
    LIST_AUDIT_EVENTS = AdministrationService / "ListAuditEvents";
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_operation_is_in_the_contracts() {
        let set = FileDescriptorSet::decode(ferrite_proto::DESCRIPTORS).unwrap();
        let files = set.file.iter().filter(|file| file.package() == "ferrite.repo.v1");
        let services: Vec<_> = files.flat_map(|file| &file.service).collect();
        for (service, method) in ALL {
            let found = services.iter().find(|found| found.name() == *service).expect(service);
            assert!(found.method.iter().any(|found| found.name() == *method), "{service}/{method}");
        }
    }
}
