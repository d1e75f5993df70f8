package dev.octet.formats;

import java.nio.file.Path;

/** Where the committed test data lies. */
public final class TestData {
    private TestData() {}

    /** A path below {@code testdata/}. */
    public static Path path(String relative) {
        return Path.of(System.getProperty("octet.testdata"), relative);
    }
}
