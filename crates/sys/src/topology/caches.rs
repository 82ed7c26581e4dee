//! The caches of a description: `cpuN/cache/indexI`.

use std::collections::BTreeMap;

use super::files::Files;
use super::{Cache, CacheKind, TopologyError};
use crate::cpu::CpuSet;

/// More than any processor has.
const MOST: usize = 10;

/// All caches of the online CPUs. Virtual machines may have none, or some that lack this or that file.
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
            // Of an empty list nobody knows who they are.
            if cpus.is_empty() {
                continue;
            }
            // A cache that is new has only CPUs that no other of its kind has; of one that is known, all list the same.
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

/// `None` where the kernel does not know what it is.
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

/// The kernel writes `32K`; a size of 0 is one that it does not know.
fn size(files: Files<'_>, file: &str) -> Result<Option<u64>, TopologyError> {
    let Some(text) = files.text(file)? else { return Ok(None) };
    let kib = text.strip_suffix('K').and_then(|digits| digits.parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    bytes.map(|bytes| (bytes > 0).then_some(bytes)).ok_or_else(|| files.malformed(file, &text))
}
