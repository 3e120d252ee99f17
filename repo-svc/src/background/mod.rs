mod audit_purge;
mod default_branches;
mod download_counts;
mod file_sweeper;
mod import_sweeper;
mod last_use_writer;
mod store_poller;
mod sweeper;
mod transfer_sweeper;

pub(crate) use audit_purge::AuditPurge;
pub(crate) use default_branches::HeadMover;
pub(crate) use download_counts::{DownloadCounts, DownloadWriter};
pub(crate) use file_sweeper::FileSweeper;
pub(crate) use import_sweeper::ImportSweeper;
pub(crate) use last_use_writer::LastUseWriter;
pub(crate) use store_poller::StorePoller;
pub(crate) use sweeper::Sweeper;
pub(crate) use transfer_sweeper::TransferSweeper;
