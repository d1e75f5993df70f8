package dev.octet.trainer.kernel;

/** Reads an operator from a node. */
@FunctionalInterface
public interface OpReader<O extends Op> {
    /**
     * The operator with its attributes and the types of its outputs.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when an attribute or type is not supported
     */
    O read(OpSource source);
}
