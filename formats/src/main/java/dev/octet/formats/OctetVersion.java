package dev.octet.formats;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;

/** The version of the running Octet, written by the build. */
public final class OctetVersion {
    private static final String CURRENT = read();

    private OctetVersion() {}

    /** For example {@code 0.1.0-SNAPSHOT}. */
    public static String current() {
        return CURRENT;
    }

    private static String read() {
        try (InputStream in = OctetVersion.class.getResourceAsStream("version.properties")) {
            if (in == null) {
                throw new IllegalStateException("version.properties is missing from octet-formats.jar");
            }
            Properties p = new Properties();
            p.load(in);
            return p.getProperty("version");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
