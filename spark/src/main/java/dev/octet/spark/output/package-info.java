/**
 * A folder in any file system of Hadoop that becomes a model file by file: who may write, which files are finished, and the moment when all of
 * them get their names. Comes in: complete files. Goes out: a folder that is whole.
 */
@NullMarked
package dev.octet.spark.output;

import org.jspecify.annotations.NullMarked;
