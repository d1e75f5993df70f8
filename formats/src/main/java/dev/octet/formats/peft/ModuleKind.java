package dev.octet.formats.peft;

/** What a module of a base model is, as far as {@code all-linear} needs to know. */
public enum ModuleKind {
    /** A Linear or GPT-2's Conv1D. */
    LINEAR,
    /** The Linear that {@code all-linear} leaves out: a language model's output embeddings, a classifier's head. */
    OUTPUT_HEAD,
    /** A table of embeddings. */
    EMBEDDING,
    /** A norm. */
    NORM,
    /** Anything else: attention, a layer. */
    OTHER
}
