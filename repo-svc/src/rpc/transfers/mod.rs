//! Transfers of repositories to other owners.

mod accept_transfer;
mod cancel_transfer;
mod change_owner;
mod get_transfer;
mod list_transfers;
mod pending;
mod reject_transfer;
mod start_transfer;

use ferrite_proto::repo::transfer_service_server::TransferService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(TransferService {
    start_transfer(StartTransferRequest) -> StartTransferResponse;
    cancel_transfer(CancelTransferRequest) -> CancelTransferResponse;
    get_transfer(GetTransferRequest) -> GetTransferResponse;
    list_transfers(ListTransfersRequest) -> ListTransfersResponse;
    accept_transfer(AcceptTransferRequest) -> AcceptTransferResponse;
    reject_transfer(RejectTransferRequest) -> RejectTransferResponse;
});
