//! The caches of a description: `cpuN/cache/indexI`.

use std::collections::BTreeMap;

use super::files::Files;
use super::{Cache, CacheKind, TopologyError};
use crate::cpu::CpuSet;

/// Upper bound of caches per CPU.
const MOST: usize = 10;

/// All caches of the online CPUs. Virtual machines may have none, or caches with missing files.
pub(super) fn read(files: Files<'_>, online: &CpuSet) -> Result<Vec<Cache>, TopologyError> {
    let mut caches: Vec<Cache> = Vec::new();
    let mut taken = BTreeMap::new();
    for cpu in online.iter() {
        for index in 0..MOST {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            let list = format!("{folder}/shared_cpu_list");
            let Some(cpus) = files.list(&list)? else { continue };
            let Some((level, kind)) = level_and_kind(files, &folder)? else { continue };
            let cpus = cpus.intersection(online);
            // The CPUs of an empty list are unknown.
            if cpus.is_empty() {
                continue;
            }
            // A new cache has only CPUs that are in no other cache of its kind; all CPUs of a known
            // cache list the same set.
            let at = *taken.entry((level, kind, cpu)).or_insert(caches.len());
            let agreed = match caches.get(at) {
                Some(known) => known.cpus == cpus,
                None => cpus.iter().all(|cpu| *taken.entry((level, kind, cpu)).or_insert(at) == at),
            };
            if !agreed || !cpus.contains(cpu) {
                return Err(files.contradictory(&list));
            }
            if at == caches.len() {
                let size = size(files, &format!("{folder}/size"))?;
                caches.push(Cache { level, kind, size, cpus });
            }
        }
    }
    caches.sort_by_key(|cache: &Cache| (cache.level, cache.cpus.iter().next(), cache.kind));
    Ok(caches)
}

/// `None` if the kernel does not know the cache.
fn level_and_kind(
    files: Files<'_>,
    folder: &str,
) -> Result<Option<(u32, CacheKind)>, TopologyError> {
    let Some(level) = files.value(&format!("{folder}/level"))? else { return Ok(None) };
    let kind = kind(files, &format!("{folder}/type"))?;
    Ok(kind.map(|kind| (level, kind)))
}

fn kind(files: Files<'_>, file: &str) -> Result<Option<CacheKind>, TopologyError> {
    let Some(text) = files.text(file)? else { return Ok(None) };
    match text.as_str() {
        "Data" => Ok(Some(CacheKind::Data)),
        "Instruction" => Ok(Some(CacheKind::Instruction)),
        "Unified" => Ok(Some(CacheKind::Unified)),
        _ => Err(files.malformed(file, &text)),
    }
}

/// Parses the kernel's `32K`. A size of 0 is unknown.
fn size(files: Files<'_>, file: &str) -> Result<Option<u64>, TopologyError> {
    let Some(text) = files.text(file)? else { return Ok(None) };
    let kib = text.strip_suffix('K').and_then(|digits| digits.parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    bytes.map(|bytes| (bytes > 0).then_some(bytes)).ok_or_else(|| files.malformed(file, &text))
}
