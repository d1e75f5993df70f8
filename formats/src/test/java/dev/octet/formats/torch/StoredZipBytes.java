package dev.octet.formats.torch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** Zip archives with members as they are. */
final class StoredZipBytes {
    private StoredZipBytes() {}

    static byte[] of(Map<String, byte[]> members) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(bytes)) {
            for (Map.Entry<String, byte[]> member : new TreeMap<>(members).entrySet()) {
                ZipEntry entry = new ZipEntry(member.getKey());
                entry.setMethod(ZipEntry.STORED);
                entry.setSize(member.getValue().length);
                CRC32 crc = new CRC32();
                crc.update(member.getValue());
                entry.setCrc(crc.getValue());
                zip.putNextEntry(entry);
                zip.write(member.getValue());
                zip.closeEntry();
            }
        }
        return bytes.toByteArray();
    }
}
