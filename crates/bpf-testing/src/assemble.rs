//! A small assembler with labels.

use wingbeat_bpf_loader::code::{Code, FunctionInfo, Insn, LineInfo, disassemble::Listing, op};

/// A jump target, possibly unbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// How an instruction encodes the distance to a label.
#[derive(Debug, Clone, Copy)]
enum Field {
    Offset,
    Immediate,
}

/// Instructions in order of emission.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Code,
    labels: Vec<Option<usize>>,
    uses: Vec<(usize, Label, Field)>,
}

impl Assembler {
    /// Starts the function `main`.
    pub fn new() -> Self {
        let mut assembler = Self::default();
        assembler.function("main");
        assembler
    }

    /// Starts a function here.
    pub fn function(&mut self, name: &str) -> &mut Self {
        let insn_index = self.code.insns.len() as u32;
        self.code.functions.push(FunctionInfo { insn_index, name: name.into(), type_id: None });
        self
    }

    /// Starts a source line here, replacing one that starts here already.
    pub fn line(&mut self, number: u32) -> &mut Self {
        let insn_index = self.code.insns.len() as u32;
        self.code.lines.pop_if(|line| line.insn_index == insn_index);
        let line_column = number << 10;
        self.code.lines.push(LineInfo { insn_index, file_offset: 0, text_offset: 0, line_column });
        self
    }

    /// Number of source lines so far.
    pub fn lines(&self) -> usize {
        self.code.lines.len()
    }

    /// A new label, to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds the label to this position.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.insns.len());
        self
    }

    /// Emits any instruction.
    pub fn emit(&mut self, insn: Insn) -> &mut Self {
        self.code.insns.push(insn);
        self
    }

    /// `dst = immediate`
    pub fn mov(&mut self, dst: u8, immediate: i32) -> &mut Self {
        self.alu_immediate(op::MOV, dst, immediate)
    }

    /// `dst = src`
    pub fn copy(&mut self, dst: u8, src: u8) -> &mut Self {
        self.alu(op::MOV, dst, src)
    }

    /// `dst += immediate`
    pub fn add(&mut self, dst: u8, immediate: i32) -> &mut Self {
        self.alu_immediate(op::ADD, dst, immediate)
    }

    /// `dst += src`
    pub fn add_register(&mut self, dst: u8, src: u8) -> &mut Self {
        self.alu(op::ADD, dst, src)
    }

    /// 64-bit arithmetic with a register operand.
    pub fn alu(&mut self, operation: u8, dst: u8, src: u8) -> &mut Self {
        self.emit(Insn::new(op::ALU64 | operation | op::X, dst, src, 0, 0))
    }

    /// 64-bit arithmetic with an immediate operand.
    pub fn alu_immediate(&mut self, operation: u8, dst: u8, immediate: i32) -> &mut Self {
        self.emit(Insn::new(op::ALU64 | operation, dst, 0, 0, immediate))
    }

    /// 64-bit load of the given kind (the source register of `ldimm64`, 0 for a plain number).
    pub fn load_double(&mut self, dst: u8, kind: u8, low: i32, high: i32) -> &mut Self {
        self.emit(Insn::new(op::LDIMM64, dst, kind, 0, low)).emit(Insn::new(0, 0, 0, 0, high))
    }

    /// Loads the address of the function at the label.
    pub fn load_function(&mut self, dst: u8, function: Label) -> &mut Self {
        self.uses.push((self.code.insns.len(), function, Field::Immediate));
        self.load_double(dst, op::PSEUDO_FUNC, 0, 0)
    }

    /// Jump that compares a 64-bit register with an immediate.
    pub fn branch(&mut self, operation: u8, dst: u8, immediate: i32, to: Label) -> &mut Self {
        self.jump(Insn::new(op::JMP | operation, dst, 0, 0, immediate), to)
    }

    /// Any jump with a 16-bit offset.
    pub fn jump(&mut self, insn: Insn, to: Label) -> &mut Self {
        self.uses.push((self.code.insns.len(), to, Field::Offset));
        self.emit(insn)
    }

    pub fn goto(&mut self, to: Label) -> &mut Self {
        self.jump(Insn::new(op::JA, 0, 0, 0, 0), to)
    }

    /// `gotol`
    pub fn goto_long(&mut self, to: Label) -> &mut Self {
        self.uses.push((self.code.insns.len(), to, Field::Immediate));
        self.emit(Insn::new(op::JA32, 0, 0, 0, 0))
    }

    pub fn call(&mut self, helper: i32) -> &mut Self {
        self.emit(Insn::new(op::CALL, 0, 0, 0, helper))
    }

    pub fn call_kfunc(&mut self, btf_id: i32) -> &mut Self {
        self.emit(Insn::new(op::CALL, 0, op::PSEUDO_KFUNC_CALL, 0, btf_id))
    }

    /// Call of a subprogram.
    pub fn call_function(&mut self, function: Label) -> &mut Self {
        self.uses.push((self.code.insns.len(), function, Field::Immediate));
        self.emit(Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, 0))
    }

    pub fn exit(&mut self) {
        self.emit(Insn::new(op::EXIT, 0, 0, 0, 0));
    }

    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.code.insns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.code.insns.is_empty()
    }

    /// Returns the program.
    ///
    /// # Panics
    ///
    /// If a label is unbound, or out of range of a 16-bit offset.
    pub fn finish(self) -> Code {
        let Self { mut code, labels, uses } = self;
        for (index, label, field) in uses {
            let target = labels[label.0].expect("a label that was bound");
            let distance = target as i64 - index as i64 - 1;
            let insn = &mut code.insns[index];
            match field {
                Field::Offset => insn.offset = distance.try_into().expect("a near label"),
                Field::Immediate => insn.immediate = distance.try_into().expect("a near label"),
            }
        }
        code
    }
}

/// `*(size *)(base + offset) = src`
pub fn store(size: u8, base: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::MEM | size, base, src, offset, 0)
}

/// `*(size *)(base + offset) = immediate`
pub fn store_immediate(size: u8, base: u8, offset: i16, immediate: i32) -> Insn {
    Insn::new(op::ST | op::MEM | size, base, 0, offset, immediate)
}

/// `dst = *(size *)(base + offset)`
pub fn load(size: u8, dst: u8, base: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | size, dst, base, offset, 0)
}

/// Disassembly, one instruction per line.
pub fn listing(code: &Code) -> String {
    let mut text = String::new();
    for listed in Listing::new(code).iter() {
        if let Some(function) = listed.function {
            text += &format!("{}:\n", function.name);
        }
        text += &format!("{:4} {}\n", listed.insn_index, listed.text);
    }
    text
}

/// A program with the function `main`, plus what `build` adds.
pub fn assembled(build: impl FnOnce(&mut Assembler)) -> Code {
    let mut assembler = Assembler::new();
    build(&mut assembler);
    assembler.finish()
}

/// Compares lines, ignoring indentation.
#[track_caller]
pub fn assert_lines(text: &str, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(lines(text), lines(expected));
}
