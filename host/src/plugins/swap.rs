//! A version takes its plugin's place: on disk first, then in one swap of the
//! table, and then it is watched.

use std::path::Path;
use std::sync::Arc;

use crate::plugins::Plugins;
use crate::plugins::error::LoadError;
use crate::plugins::history::{Account, Happening};
use crate::plugins::intake::{Offer, kept};
use crate::plugins::load::Loaded;
use crate::plugins::versions::{Line, Versions};
use crate::store::Change as Stored;

impl Plugins {
    /// Lets a version take its plugin's place: first on disk, with what is told
    /// of it and `changes`, then for the next request. It is watched against
    /// the one that it replaces.
    pub(crate) async fn go_live(
        &self,
        file: &Path,
        offer: &Offer,
        loaded: &Loaded,
        account: Account,
        changes: Vec<Stored>,
    ) -> Result<(), LoadError> {
        self.take_place(file, offer, loaded, account, changes, true)
            .await
    }

    /// The same for a version that was live before, which nobody watches.
    pub(crate) async fn go_back(
        &self,
        file: &Path,
        offer: &Offer,
        loaded: &Loaded,
        account: Account,
    ) -> Result<(), LoadError> {
        self.take_place(file, offer, loaded, account, Vec::new(), false)
            .await
    }

    async fn take_place(
        &self,
        file: &Path,
        offer: &Offer,
        loaded: &Loaded,
        mut account: Account,
        changes: Vec<Stored>,
        watched: bool,
    ) -> Result<(), LoadError> {
        let line = self.0.versions.line(loaded.manifest.name.as_str()).await?;
        let mut now = line.clone();
        now.goes_live(kept(offer, loaded));
        let tried = line.tried.as_ref().map(|tried| tried.hash);
        if let Some(other) = tried.filter(|tried| *tried != loaded.hash && now.tried.is_none()) {
            let told = format!("another version went live; {other} is tried no longer");
            account.note(Happening::Dropped, told);
        }
        self.keep(offer, loaded, &line, &now, account, changes)
            .await?;
        let settings = self.0.settings.watch;
        let watched = watched && !settings.window.is_zero();
        let watch = self
            .0
            .stage
            .go_live(file, loaded, self.grants(loaded), watched);
        self.0.authority.hold();
        if let Some(watch) = watch {
            tokio::spawn(watch.run(Arc::downgrade(&self.0), settings));
        }
        Ok(())
    }

    pub(crate) async fn keep(
        &self,
        offer: &Offer,
        loaded: &Loaded,
        before: &Line,
        now: &Line,
        account: Account,
        mut changes: Vec<Stored>,
    ) -> Result<(), LoadError> {
        let inner = &self.0;
        let name = loaded.manifest.name.as_str();
        let bytes = Arc::clone(&offer.bytes);
        let put = inner
            .versions
            .put(loaded.hash, bytes, offer.signature.clone());
        put.await.map_err(LoadError::Keep)?;
        if before != now {
            changes.push(Versions::keep(name, now)?);
        }
        changes.extend(inner.history.append(name, account).await?);
        self.commit(changes).await?;
        for gone in inner.versions.let_go(before, now) {
            inner.cache.forget(&inner.machine.engine, &gone);
            inner.stage.forget(&inner.versions.path(&gone));
        }
        Ok(())
    }
}
