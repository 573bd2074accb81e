//! What a run leaves behind: the transaction, the mail in it, the files after it, the record of a refusal.

use crate::domain::mismatch::{Mismatch, Standing};
use crate::domain::run::{Reconciliation, RunHead};
use crate::report;
use crate::store::{Attachment, Begun, Mail, OutboxMessage};

use super::{Ctx, Done, ReconcileError, Request, files, identity};

/// The outbox topic of the mismatch mail.
const MAIL_TOPIC: &str = "mismatch-mail";

/// Commits, then writes the files from what was committed.
pub(super) async fn commit(
    ctx: &Ctx<'_>,
    request: &Request,
    mut found: Reconciliation,
) -> Result<Done, ReconcileError> {
    let Some(database) = &ctx.database else {
        return Ok(with_files(ctx, found, false));
    };
    if request.rerun {
        // A second comparison of the same report is a run of its own.
        found.run.identity = identity::of_rerun(&found.run);
    }
    match database.store.begin_commit(&found).await? {
        Begun::Already(stored) => Ok(with_files(ctx, stored.reconciliation, true)),
        Begun::New(transaction) => {
            let message = mail(ctx, &transaction.stored().reconciliation);
            let stored = transaction.commit(message.as_ref()).await?;
            Ok(with_files(ctx, stored.reconciliation, false))
        }
    }
}

pub(super) fn with_files(ctx: &Ctx<'_>, found: Reconciliation, already: bool) -> Done {
    let folder = files::folder(&ctx.settings.reports_dir, &found.run);
    let documents = report::documents(&found, found.run.started_at);
    let files_failed = files::write_missing(&folder, &documents).err();
    Done { found, already, folder: Some(folder), files_failed }
}

/// The mail about a run, to be written with it; `None` when nobody is to be told. A run in which nothing is new,
/// changed, graver or back again sends none of its own: the same alarm each night is one that nobody reads.
fn mail(ctx: &Ctx<'_>, found: &Reconciliation) -> Option<OutboxMessage> {
    let news = |mismatch: &Mismatch| mismatch.kind.is_break() && mismatch.seen != Standing::StillOpen;
    if !found.mismatches.iter().any(news) {
        return None;
    }
    let folder = files::folder(&ctx.settings.reports_dir, &found.run);
    let rendered = report::mail(found, found.run.started_at, folder.to_str());
    message(ctx, rendered, format!("run:{}", found.run.id))
}

fn message(ctx: &Ctx<'_>, rendered: report::Mail, dedup_key: String) -> Option<OutboxMessage> {
    if ctx.mail.to.is_empty() {
        return None;
    }
    let attachments = rendered.attachments.into_iter().map(|document| Attachment {
        name: document.name.to_owned(),
        content_type: document.media_type.to_owned(),
        content: document.bytes,
    });
    Some(OutboxMessage {
        topic: MAIL_TOPIC.to_owned(),
        dedup_key,
        attachments: attachments.collect(),
        mail: Mail {
            from: ctx.mail.from.clone(),
            to: ctx.mail.to.clone(),
            subject: rendered.subject,
            text: rendered.text,
            html: rendered.html,
            headers: Vec::new(),
        },
    })
}

/// Whether the report was refused (and not the call, or the database): that is recorded and mailed once.
pub(super) fn is_refusal(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::Report(error) => !error.is_usage(),
        ReconcileError::Implausible(_) | ReconcileError::NothingReadable { .. } | ReconcileError::NoRows => true,
        _ => false,
    }
}

pub(super) async fn record_refusal(
    ctx: &Ctx<'_>,
    request: &Request,
    head: Option<RunHead>,
    error: &ReconcileError,
) -> Result<(), ReconcileError> {
    let Some(database) = &ctx.database else { return Ok(()) };
    let Some(head) = head.or_else(|| identity::head_of_refused(ctx, request)) else { return Ok(()) };
    let reason = error.to_string();
    let message = message(ctx, report::refused_mail(&head, &reason, ctx.now), format!("refused:{}", head.identity));
    database.store.commit_refused(&head, &reason, message.as_ref()).await?;
    Ok(())
}
