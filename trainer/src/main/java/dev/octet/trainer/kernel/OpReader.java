package dev.octet.trainer.kernel;

/** Creates an operator from a node. */
@FunctionalInterface
public interface OpReader<O extends Op> {
    /**
     * Creates the operator, with attributes and output types.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when an attribute or type is not supported
     */
    O read(OpSource source);
}
