//! Where components come from: the plugins folder, at the start and whenever it
//! changes; somebody who hands one over; and the versions that are kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::plugins::error::LoadError;
use crate::plugins::hash::ComponentHash;
use crate::plugins::history::Account;
use crate::plugins::intake::{Occasion, Offer, Origin};
use crate::plugins::stage::Found;
use crate::plugins::status::{LoadReport, Outcome};
use crate::plugins::versions::{Kept, Line};
use crate::plugins::watch::{self, Watch};
use crate::plugins::{Approve, Plugins, folder};
use crate::rules::trial::Trial;

impl Plugins {
    /// Loads every component of a folder, and what was live before and is not
    /// in it as it was. One bad plugin never stops the rest; what is already
    /// live under a name is replaced by what is found now.
    pub async fn load_folder(&self, folder: &Path, approve: Approve) -> Vec<LoadReport> {
        let look = match watch::look(folder) {
            Ok(look) => look,
            Err(error) => return vec![LoadReport::refused(folder, error)],
        };
        let files: BTreeSet<PathBuf> = look.keys().cloned().collect();
        let (_, gone) = self.watch().due(look.clone());
        self.watch().take_all(look);
        for file in gone {
            self.0.stage.forget(&file);
        }
        let mut reports = Vec::new();
        let occasion = Occasion::Start(approve);
        for file in &files {
            reports.push(self.take_file(file, occasion).await);
        }
        reports.extend(self.restore(&files).await);
        reports
    }

    /// Looks at the folder again and again, and takes up what has changed.
    pub async fn watch_folder(&self, folder: &Path, every: Duration, until: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            for report in self.look_again(folder).await {
                report.log();
            }
        }
    }

    /// Takes up what has changed in the folder and lies still.
    pub(crate) async fn look_again(&self, folder: &Path) -> Vec<LoadReport> {
        let at = folder.to_owned();
        let look = tokio::task::spawn_blocking(move || watch::look(&at)).await;
        let look = match look {
            Ok(Ok(look)) => look,
            Ok(Err(error)) => return self.folder_refused(folder, error),
            Err(cause) => return self.folder_refused(folder, LoadError::Host(cause.to_string())),
        };
        self.0.stage.forget(folder);
        let (due, gone) = self.watch().due(look);
        for file in gone {
            self.0.stage.forget(&file);
        }
        let mut reports = Vec::new();
        for file in due {
            let report = self.take_file(&file, Occasion::Running).await;
            if let Outcome::Refused(LoadError::Changed) = report.outcome {
                self.watch().give_back(&file);
            }
            reports.push(report);
        }
        reports
    }

    /// Takes a component that somebody hands over, through all that a file of
    /// the folder goes through.
    pub async fn load_bytes(
        &self,
        file: String,
        bytes: Vec<u8>,
        signature: Option<String>,
    ) -> LoadReport {
        let offer = Offer {
            bytes: Arc::new(bytes),
            signature,
            origin: Origin::Handed(file),
            trial: None,
        };
        self.take_in(offer, Occasion::Running).await
    }

    /// Takes a component that somebody hands over to be tried beside the live
    /// version, through the same.
    pub async fn try_bytes(
        &self,
        file: String,
        bytes: Vec<u8>,
        signature: Option<String>,
        trial: Trial,
    ) -> LoadReport {
        let offer = Offer {
            bytes: Arc::new(bytes),
            signature,
            origin: Origin::Handed(file),
            trial: Some(trial),
        };
        self.take_in(offer, Occasion::Running).await
    }

    /// Said once, until it changes.
    fn folder_refused(&self, folder: &Path, error: LoadError) -> Vec<LoadReport> {
        let said = error.to_string();
        if let Some(Found::Refused(before)) = self.0.stage.at(folder)
            && before == said
        {
            return Vec::new();
        }
        self.0.stage.note(folder, Found::Refused(said));
        vec![LoadReport::refused(folder, error)]
    }

    async fn take_file(&self, file: &Path, occasion: Occasion) -> LoadReport {
        let path = file.to_owned();
        let read = tokio::task::spawn_blocking(move || {
            let bytes = folder::read(&path)?;
            Ok((Arc::new(bytes), folder::read_signature(&path)?))
        });
        let read = read
            .await
            .map_err(|cause| LoadError::Host(cause.to_string()));
        let origin = Origin::File(file.to_owned());
        match read.and_then(|read| read) {
            Ok((bytes, signature)) => {
                let offer = Offer {
                    bytes,
                    signature,
                    origin,
                    trial: None,
                };
                self.take_in(offer, occasion).await
            }
            Err(error) => {
                let _turn = self.0.turn.lock().await;
                self.refuse(file, &origin, Account::default(), error).await
            }
        }
    }

    /// What was live when the host ended, or waited, and does not lie in the
    /// folder as it was. A file that was taken out of the folder takes its
    /// plugin with it.
    async fn restore(&self, files: &BTreeSet<PathBuf>) -> Vec<LoadReport> {
        let mut reports = Vec::new();
        let lines = match self.0.versions.lines().await {
            Ok(lines) => lines,
            Err(error) => {
                tracing::error!(%error, "the versions that are kept cannot be read");
                return reports;
            }
        };
        for (_, line) in lines {
            let live = line.kept.iter().find(|kept| Some(kept.hash) == line.live);
            // What is tried comes last: it is tried beside what is live.
            let beside = line.waits.iter().chain(&line.tried);
            for kept in live.into_iter().chain(beside) {
                let has_file = kept.file.as_ref().is_none_or(|file| files.contains(file));
                let is_replaced = line.waits.as_ref() != Some(kept) && self.is_live(kept, &line);
                let is_there = is_replaced || self.0.stage.has(&kept.hash);
                let is_tried = line.tried.as_ref() == Some(kept);
                if !has_file || (is_there && !is_tried) {
                    continue;
                }
                let occasion = Occasion::Start(Approve::OnDisk);
                match self.read_kept(kept).await {
                    Ok(offer) => reports.push(self.take_in(offer, occasion).await),
                    Err(error) => {
                        let path = self.0.versions.path(&kept.hash);
                        reports.push(LoadReport::refused(&path, error));
                    }
                }
            }
        }
        for report in &reports {
            report.log();
        }
        reports
    }

    /// Whether a version is live under the name of this line, whichever.
    fn is_live(&self, kept: &Kept, line: &Line) -> bool {
        let live = self.live();
        live.plugins().iter().any(|plugin| {
            *plugin.hash() == kept.hash || line.kept.iter().any(|of| of.hash == *plugin.hash())
        })
    }

    /// The bytes of a version that is kept, which are what they were.
    pub(crate) async fn read_kept(&self, kept: &Kept) -> Result<Offer, LoadError> {
        let path = self.0.versions.path(&kept.hash);
        let hash = kept.hash;
        let read = tokio::task::spawn_blocking(move || {
            let bytes = folder::read(&path)?;
            if ComponentHash::of(&bytes) != hash {
                return Err(LoadError::Changed);
            }
            Ok((Arc::new(bytes), folder::read_signature(&path)?))
        });
        let read = read
            .await
            .map_err(|cause| LoadError::Host(cause.to_string()));
        let (bytes, signature) = read.and_then(|read| read)?;
        Ok(Offer {
            bytes,
            signature,
            origin: Origin::Kept(kept.clone()),
            trial: kept.trial.clone(),
        })
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        let watch: &Mutex<Watch> = &self.0.watch;
        watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
