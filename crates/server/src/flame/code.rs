//! The machine code of this process: which file an address belongs to, how a stack is unwound there, and what functions are called.
//!
//! Addresses come from the kernel's list of mappings as it is when a profile begins. Libraries that are loaded later have no names.
//!
//! Not here: reading of live memory. Stacks are copies, unwind tables and names come from the files.
//!
//! Invariant: what cannot be read or understood makes a stack shorter or a name poorer, and is no error.

use super::names;
use addr2line::Loader;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder, UnwinderNative,
};
use netio::sys::sampler::{Registers, Sample};
use object::{Object, ObjectSection, ObjectSegment, ReadCache, SegmentFlags, elf};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// See the module.
pub(super) struct Code {
    images: Vec<Image>,
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

/// A file with code, as it is mapped.
struct Image {
    /// Where its code lies in memory.
    range: Range<u64>,
    /// What an address in memory is above the same one in the file's tables.
    bias: u64,
    /// Where the file can be opened.
    path: PathBuf,
    /// What is shown when functions have no names.
    name: String,
    /// Its names; read when they are asked for, which takes longest of all.
    loader: OnceCell<Option<Loader>>,
}

impl Code {
    /// What is mapped now.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let mut images: Vec<Image> = Vec::new();
        let mut unwinder = UnwinderNative::new();
        for mapping in maps.lines().filter_map(Mapping::of_code) {
            let name = names::clean(mapping.path.rsplit('/').next().unwrap_or_default());
            // The file of this process may have another name by now, or none.
            let path = match own == Path::new(mapping.path) {
                true => PathBuf::from("/proc/self/exe"),
                false => PathBuf::from(mapping.path),
            };
            if let Some(image) = images.last_mut().filter(|image| image.path == path) {
                image.range.end = mapping.range.end;
                continue;
            }
            let read = read(&path, &mapping);
            let bias = read.as_ref().map_or(0, |(bias, _)| *bias);
            if let Some((_, tables)) = read {
                unwinder.add_module(Module::new(name.clone(), mapping.range.clone(), bias, tables));
            }
            let (range, loader) = (mapping.range, OnceCell::new());
            // What the kernel maps has such a name already.
            let name = if name.starts_with('[') { name } else { format!("[{name}]") };
            images.push(Image { range, bias, path, name, loader });
        }
        Ok(Self { images, unwinder, cache: CacheNative::new() })
    }

    /// The addresses of a stack, the innermost first, each within the instruction that was under way. In the kernel the first one is [`KERNEL`].
    pub(super) fn unwind(&mut self, sample: &Sample<'_>) -> Vec<u64> {
        let mut read = |address| sample.word(address).ok_or(());
        let Registers { pc, .. } = sample.registers;
        let registers = native(&sample.registers);
        let mut addresses = Vec::new();
        addresses.extend(sample.in_kernel.then_some(KERNEL));
        let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
        // What comes behind the system call may be of another function already.
        let entered = pc.wrapping_sub(1);
        if sample.in_kernel && matches!(frames.next(), Ok(Some(_))) {
            addresses.push(entered);
        }
        while let Ok(Some(frame)) = frames.next()
            && addresses.len() < ADDRESSES_MAX
        {
            addresses.push(frame.address_for_lookup());
        }
        addresses
    }

    /// The functions at an address: those that were put into another one by the compiler each by itself, the innermost first.
    pub(super) fn names(&self, address: u64) -> Vec<String> {
        if address == KERNEL {
            return vec!["[kernel]".to_owned()];
        }
        let Some(image) = self.images.iter().find(|image| image.range.contains(&address)) else {
            return vec!["[unknown]".to_owned()];
        };
        let names = image.names(address);
        if names.is_empty() { vec![image.name.clone()] } else { names }
    }
}

impl Image {
    fn names(&self, address: u64) -> Vec<String> {
        let Some(loader) = self.loader.get_or_init(|| Loader::new(&self.path).ok()) else {
            return Vec::new();
        };
        let address = address.wrapping_sub(self.bias);
        let mut names = Vec::new();
        if let Ok(mut frames) = loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
                let file = frame.location.as_ref().and_then(|location| location.file);
                names.extend(name.map(|name| names::of(&name, file)));
            }
        }
        // The table of symbols has the whole name of the function that the others were put into.
        let symbol = loader.find_symbol(address);
        let symbol = symbol.map(|name| addr2line::demangle_auto(name.into(), None));
        if let Some(symbol) = symbol.map(|name| names::short(&name)) {
            names.pop();
            names.push(symbol);
        }
        names
    }
}

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    range: Range<u64>,
    /// Where in the file it begins.
    offset: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// `None`: it is no file's code, or no such line.
    fn of_code(line: &'a str) -> Option<Self> {
        // Five fields with one space behind each (proc(5)), and a path that may have spaces of its own.
        let mut fields = line.splitn(6, ' ');
        let (begin, end) = fields.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let is_code = fields.next()?.contains('x');
        let offset = number(fields.next()?)?;
        let path = fields.nth(2)?.trim_start();
        let range = number(begin)?..number(end)?;
        (is_code && !path.is_empty()).then_some(Self { range, offset, path })
    }
}

/// What unwinding takes of a file, and how far in memory it lies above its own addresses.
fn read(path: &Path, mapping: &Mapping<'_>) -> Option<(u64, ExplicitModuleSectionInfo<Vec<u8>>)> {
    // The kernel's own piece of code is in memory only; of that, no function calls another.
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let bias = file.segments().find_map(|segment| {
        let (begin, len) = segment.file_range();
        let SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
        // A mapping begins with a page, a segment where it likes.
        let holds = mapping.offset < begin + len && mapping.offset + PAGE_BYTES_MAX > begin;
        let address = segment.address().wrapping_sub(begin).wrapping_add(mapping.offset);
        let is_code = p_flags & elf::PF_X != 0 && len > 0;
        (is_code && holds).then(|| mapping.range.start.wrapping_sub(address))
    })?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address() + section.size();
        Some((range, section.data().ok()?.to_vec()))
    };
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    let text_svma = section_range(&file, ".text");
    let got_svma = section_range(&file, ".got");
    Some((
        bias,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma,
            got_svma,
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        },
    ))
}

fn section_range<'data>(file: &impl Object<'data>, name: &str) -> Option<Range<u64>> {
    let section = file.section_by_name(name)?;
    Some(section.address()..section.address() + section.size())
}

#[cfg(target_arch = "x86_64")]
fn native(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.lr, registers.sp, registers.fp)
}

/// Stands for the kernel; nothing of a process is there.
const KERNEL: u64 = 0;

/// Deepest stack that is followed.
const ADDRESSES_MAX: usize = 128;

/// Largest page of any Linux.
const PAGE_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_spaces_in_their_paths() {
        let line = "55a0-55b0 r-xp 00001000 fe:00 123                        /opt/my app/respool (deleted)";
        let mapping = Mapping::of_code(line).unwrap();
        assert_eq!((mapping.range, mapping.offset), (0x55a0..0x55b0, 0x1000));
        assert_eq!(mapping.path, "/opt/my app/respool (deleted)");
        for other in [
            "55a0-55b0 r--p 00001000 fe:00 123   /opt/respool",
            "55a0-55b0 r-xp 00000000 00:00 0 ",
            "55a0-55b0 r-xp 00000000 00:00 0",
            "nonsense",
            "",
        ] {
            assert!(Mapping::of_code(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        let code = Code::of_this_process().unwrap();
        let address = thread_own as *const () as u64;
        let names = code.names(address);
        assert!(names.last().is_some_and(|name| name.ends_with("thread_own")), "{names:?}");
        assert_eq!(code.names(8), ["[unknown]"]);
    }

    /// Something to look for.
    #[inline(never)]
    fn thread_own() -> std::thread::ThreadId {
        std::thread::current().id()
    }
}
