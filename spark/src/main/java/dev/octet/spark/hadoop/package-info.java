/**
 * Files of Hadoop's file systems as {@link java.nio.file.Path}, to read: with them every part of Octet that takes a path reads a checkpoint where
 * it lies. Comes in: a URI and Hadoop's configuration. Goes out: paths. Writing goes through {@code output}.
 */
@NullMarked
package dev.octet.spark.hadoop;

import org.jspecify.annotations.NullMarked;
