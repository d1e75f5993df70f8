/**
 * Verbs that work shard by shard, or sample by sample, as jobs of Apache Spark. Comes in: requests of {@code pipeline} and names of files in any
 * file system of Hadoop. Goes out: the files, byte for byte, that one process writes.
 */
@NullMarked
package dev.octet.spark;

import org.jspecify.annotations.NullMarked;
