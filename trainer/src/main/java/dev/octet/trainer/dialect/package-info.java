/**
 * Configurations of other libraries, read as they are: what each of their keys becomes in a run here. Tables of keys are data; a {@link
 * dev.octet.trainer.dialect.Reading} says of every key of a file, and of defaults that matter, whether it is applied, mapped, without effect
 * or refused, and gives the configuration that the file becomes.
 */
@NullMarked
package dev.octet.trainer.dialect;

import org.jspecify.annotations.NullMarked;
