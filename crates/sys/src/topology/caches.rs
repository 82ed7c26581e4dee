//! The caches of a description: `cpuN/cache/indexI`.

use super::files::Files;
use super::{Cache, CacheKind, TopologyError};
use crate::cpu::CpuSet;

/// More than any processor has.
const MOST: usize = 10;

/// All caches of the online CPUs. Virtual machines may have none, or some that lack this or that file.
pub(super) fn read(files: Files<'_>, online: &CpuSet) -> Result<Vec<Cache>, TopologyError> {
    let mut caches = Vec::new();
    for cpu in online.iter() {
        for index in 0..MOST {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            let list = format!("{folder}/shared_cpu_list");
            let Some(cpus) = files.list(&list)? else { continue };
            let cpus = cpus.intersection(online);
            if !cpus.is_empty() && !cpus.contains(cpu) {
                return Err(files.contradictory(&list));
            }
            // Each is described by all who share it; of an empty list nobody knows who they are.
            if cpus.iter().next() == Some(cpu) {
                caches.extend(cache(files, &folder, cpus)?);
            }
        }
    }
    caches.sort_by_key(|cache: &Cache| (cache.level, cache.cpus.iter().next(), cache.kind));
    Ok(caches)
}

/// `None` where the kernel does not know what it is.
fn cache(files: Files<'_>, folder: &str, cpus: CpuSet) -> Result<Option<Cache>, TopologyError> {
    let Some(level) = files.value(&format!("{folder}/level"))? else { return Ok(None) };
    let Some(kind) = kind(files, &format!("{folder}/type"))? else { return Ok(None) };
    let size = size(files, &format!("{folder}/size"))?;
    Ok(Some(Cache { level, kind, size, cpus }))
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
