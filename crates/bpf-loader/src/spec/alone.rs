//! Extensions (freplace) without their target program: derives a program type from their argument.
//!
//! A function with a packet context can be run on packets as a program of that type. veristat loads
//! extensions in the same way (tools/testing/selftests/bpf/veristat.c, Linux 6.12).

use super::{
    Spec,
    section::{Attachment, ProgramSpec, classify},
};
use crate::{btf::table::TypeKind, program_type::ProgramType};

/// Contexts, each with a section of programs that get it.
const CONTEXTS: &[(&str, &str)] = &[
    ("xdp_md", "xdp"),
    ("__sk_buff", "tc"),
    ("bpf_sock", "cgroup/post_bind4"),
    ("bpf_sock_addr", "cgroup/bind4"),
    ("bpf_sock_ops", "sockops"),
    ("sk_msg_md", "sk_msg"),
    ("bpf_cgroup_dev_ctx", "cgroup/dev"),
    ("bpf_sysctl", "cgroup/sysctl"),
    ("bpf_sockopt", "cgroup/getsockopt"),
    ("sk_reuseport_md", "sk_reuseport"),
    ("bpf_sk_lookup", "sk_lookup"),
    ("pt_regs", "kprobe"),
    ("bpf_perf_event_data", "perf_event"),
    ("bpf_raw_tracepoint_args", "raw_tracepoint"),
];

impl ProgramSpec {
    /// Whether it is an extension by its section, and another type by its argument.
    pub fn is_extension_alone(&self) -> bool {
        let is_extension = classify(&self.section).is_some_and(|(it, ..)| it == ProgramType::EXT);
        is_extension && self.r#type != ProgramType::EXT
    }
}

impl Spec {
    /// A copy of the object in which extensions whose target function is missing become standalone
    /// programs; `None` if there are none, or their arguments do not determine a type.
    pub fn with_extensions_alone(&self) -> Option<Self> {
        let mut changed = self.clone();
        let mut is_changed = false;
        for program in changed.programs.iter_mut().filter(|it| it.r#type == ProgramType::EXT) {
            let section =
                if self.has_target(program) { None } else { self.context_section(program) };
            if let Some((r#type, attach_type, flags, _)) = section.and_then(classify) {
                *program =
                    ProgramSpec { r#type, attach_type, flags, attachment: None, ..program.clone() };
                is_changed = true;
            }
        }
        is_changed.then_some(changed)
    }

    /// Whether the object has a function of that name, other than extensions.
    fn has_target(&self, program: &ProgramSpec) -> bool {
        let wanted = match &program.attachment {
            Some(Attachment::Program(name)) => name,
            _ => &program.name,
        };
        let is_extension = |number| {
            self.programs.iter().any(|it| {
                it.r#type == ProgramType::EXT && self.entries.get(&it.name) == Some(&number)
            })
        };
        let mut functions = (0..).zip(&self.functions.0);
        functions.any(|(number, function)| function.name == *wanted && !is_extension(number))
    }

    /// Section of programs whose context is its only argument.
    fn context_section(&self, program: &ProgramSpec) -> Option<&'static str> {
        let types = self.types.as_ref()?;
        let function = self.functions.0.get(*self.entries.get(&program.name)?)?;
        let function = types.get(function.type_id?).filter(|it| it.kind == TypeKind::FUNC)?;
        let prototype = types.get(function.link).filter(|it| it.kind == TypeKind::FUNC_PROTO)?;
        let mut arguments = prototype.pairs();
        let (&[_, only], None) = (arguments.next()?, arguments.next()) else { return None };
        let pointer = types.resolve(only).filter(|it| it.kind == TypeKind::PTR)?;
        let pointed = types.resolve(pointer.link)?;
        let name = types.name(pointed);
        let known = CONTEXTS.iter().find(|(context, _)| *context == name);
        known.map(|(_, section)| *section)
    }
}
