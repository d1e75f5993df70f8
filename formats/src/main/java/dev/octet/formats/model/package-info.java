/**
 * The common form of models of all formats: tensors, possibly a graph, free metadata. Formats implement {@link ModelFormat}; the root class
 * {@code ModelFile} lists them.
 */
@NullMarked
package dev.octet.formats.model;

import org.jspecify.annotations.NullMarked;
