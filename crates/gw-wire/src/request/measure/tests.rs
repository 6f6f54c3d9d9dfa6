//! Measures media with real, truncated and false headers, alone and in requests.

use std::io::Write as _;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::base64::Bytes as Decoded;
use super::{Detail, Medium, PartSize, Unpacker, audio};
use crate::request::{PromptExtras, RequestLimits, parse_chat};

/// For a request without other bytes.
fn unpacker() -> Unpacker {
    Unpacker::of_request(0)
}

fn image(url: &str, detail: Detail) -> PartSize {
    super::image(url, detail, &mut unpacker())
}

fn file(data: Option<&str>, name: Option<&str>) -> PartSize {
    super::file(data, name, &mut unpacker())
}

fn pages_of(base64: &str) -> u32 {
    super::pdf::pages(base64, &mut unpacker())
}

fn url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    match image(&url("image/x", bytes), Detail::Auto) {
        PartSize::Medium(Medium::Image { width: 0, height: 0, .. }) => None,
        PartSize::Medium(Medium::Image { width, height, .. }) => Some((width, height)),
        other => panic!("{other:?}"),
    }
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    png
}

fn webp(kind: &[u8; 4], chunk: &[u8]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WEBP", kind.as_slice(), b"\0\0\0\0", chunk].concat()
}

/// A marker's segment.
fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len() + 2).unwrap();
    [&[0xff, marker], length.to_be_bytes().as_slice(), content].concat()
}

fn frame(marker: u8, width: u16, height: u16) -> Vec<u8> {
    let mut content = vec![8];
    content.extend(height.to_be_bytes());
    content.extend(width.to_be_bytes());
    content.extend([3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
    segment(marker, &content)
}

#[test]
fn image_sizes_come_from_the_headers() {
    assert_eq!(size(&png(1920, 1080)), Some((1920, 1080)));
    assert_eq!(size(b"GIF89a\x40\x01\xf0\x00\0\0\0"), Some((320, 240)));
    let lossy = [b"\0\0\0\x9d\x01\x2a".as_slice(), &640_u16.to_le_bytes(), &480_u16.to_le_bytes()].concat();
    assert_eq!(size(&webp(b"VP8 ", &lossy)), Some((640, 480)));
    let bits: u32 = (400 - 1) | (301 - 1) << 14;
    let lossless = [&[0x2f], bits.to_le_bytes().as_slice()].concat();
    assert_eq!(size(&webp(b"VP8L", &lossless)), Some((400, 301)));
    let extended = [0, 0, 0, 0, 0xff, 0x0f, 0, 0x6f, 0x17, 0];
    assert_eq!(size(&webp(b"VP8X", &extended)), Some((4096, 6000)));
    let mut bitmap = b"BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0".to_vec();
    bitmap.extend(17_i32.to_le_bytes());
    bitmap.extend((-9_i32).to_le_bytes());
    assert_eq!(size(&bitmap), Some((17, 9)));
    for unknown in [&b""[..], b"II*\0", b"\x89PNG", &png(0, 7), &png(1920, 1080)[..20]] {
        assert_eq!(size(unknown), None, "{unknown:?}");
    }
}

#[test]
fn a_jpeg_thumbnail_does_not_set_the_size() {
    let thumbnail = [&[0xff, 0xd8], frame(0xc0, 160, 120).as_slice(), &[0xff, 0xd9]].concat();
    let exif = segment(0xe1, &[b"Exif\0\0".as_slice(), &thumbnail].concat());
    let huffman = segment(0xc4, &[0xff; 40]);
    for marker in [0xc0, 0xc1, 0xc2, 0xcf] {
        let parts = [&[0xff, 0xd8][..], &exif, &huffman, &[0xff, 0xff], &frame(marker, 4032, 3024)];
        assert_eq!(size(&parts.concat()), Some((4032, 3024)));
    }
    // No frame header before the image data, none at all, and one that is too far away.
    let scan = segment(0xda, &[0; 10]);
    assert_eq!(size(&[&[0xff, 0xd8][..], &exif, &scan, &frame(0xc0, 9, 9)].concat()), None);
    assert_eq!(size(&[&[0xff, 0xd8][..], &exif].concat()), None);
    let far = segment(0xe2, &[0; 65_000]).repeat(5);
    assert_eq!(size(&[&[0xff, 0xd8][..], &far, &frame(0xc0, 9, 9)].concat()), None);
    assert_eq!(size(&[&[0xff, 0xd8][..], &far[..3 * 65_004], &frame(0xc0, 9, 9)].concat()), Some((9, 9)));
}

/// An uncompressed PDF with this many pages.
fn plain_pdf(pages: usize) -> Vec<u8> {
    let mut pdf = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >>\nendobj\n".to_vec();
    write!(
        pdf,
        "2 0 obj << /Type /Pages /Count {pages} /Kids [] >> endobj\n3 0 obj << /Count 900 >> endobj\n"
    )
    .unwrap();
    for page in 0..pages {
        let typed = ["/Type /Page ", "/Type/Page", "/Type\r\n/Page\n", "/Type  /Page/Rotate 0"][page % 4];
        write!(pdf, "{page} 0 obj <<{typed}/Parent 2 0 R>> endobj\nstream\n").unwrap();
        pdf.extend([0xf7; 400]);
        pdf.extend(b"\nendstream /Type /PageLabel /Type/Pages\n");
    }
    pdf
}

/// A PDF with its pages packed into streams.
fn packed_pdf(pages: usize, filter: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut pdf = b"%PDF-1.5\n".to_vec();
    for first in (0..pages).step_by(30) {
        let text =
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>\n".repeat((pages - first).min(30));
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        let packed = filter(encoder.finish().unwrap());
        write!(pdf, "9 0 obj << /Filter /FlateDecode /Type /ObjStm /N 30 /First 99 >> stream\r\n").unwrap();
        pdf.extend(packed);
        pdf.extend(b"\r\nendstream endobj\n");
        pdf.extend([0xf7; 4_000]);
    }
    pdf
}

fn pages(pdf: &[u8]) -> u32 {
    let there = pages_of(&STANDARD.encode(pdf));
    let broken: String = STANDARD
        .encode(pdf)
        .as_bytes()
        .chunks(76)
        .flat_map(|line| [line, b"\r\n"].concat())
        .map(char::from)
        .collect();
    assert_eq!(pages_of(&broken), there, "with line breaks");
    assert_eq!(pages_of(&URL_SAFE_NO_PAD.encode(pdf)), there, "in the other alphabet");
    there
}

#[test]
fn the_pages_of_a_pdf_are_counted() {
    for count in [1, 7, 100] {
        assert_eq!(pages(&plain_pdf(count)), count as u32);
        assert_eq!(pages(&packed_pdf(count, |packed| packed)), count as u32);
    }
    assert_eq!(pages(&plain_pdf(1_200)), 1_000);
    // Only the page tree has the number.
    assert_eq!(pages(b"%PDF-1.4 << /Type /Pages /Count 12 >> << /Type /Pages /Count 34/Kids[] >>"), 34);
    // The first page of a linearized file is stored apart from the others.
    let linearized = b"%PDF-1.5 1 0 obj <</Linearized 1/L 9000/O 3/E 400/N 20/T 8000>> << /Type /Page >>";
    assert_eq!(pages(linearized), 20);
}

#[test]
fn a_pdf_that_cannot_be_read_counts_by_its_length() {
    let unreadable = packed_pdf(30, |mut packed| {
        packed.reverse();
        packed
    });
    let by_length = unreadable.len().div_ceil(3_000) as u32;
    assert_eq!(pages(&unreadable), by_length);
    // A readable page does not hide the packed ones.
    assert_eq!(pages(&[b"%PDF-1.5 << /Type /Page >> << /Count 1 >>", &unreadable[..]].concat()), by_length);
    let cut = packed_pdf(30, |packed| packed[..packed.len() / 2].to_vec());
    assert_eq!(pages(&cut), cut.len().div_ceil(3_000) as u32);
    assert_eq!(pages(&[b"%PDF-1.7".as_slice(), &[7; 30_000]].concat()), 11);
    assert_eq!(pages(&[b"%PDF-1.7 << /Type /Page >>".as_slice(), &[7; 3_000_000]].concat()), 7);
    assert_eq!((pages(b""), pages(b"%PDF-")), (1, 1));
    assert_eq!(pages(&vec![7; 3_000_000]), 1_000);
}

#[test]
fn decompression_per_request_is_bounded() {
    let small = STANDARD.encode(packed_pdf(900, |packed| packed));
    let mut unpacker = Unpacker::of_request(0);
    let found: Vec<u32> = (0..60).map(|_| super::pdf::pages(&small, &mut unpacker)).collect();
    let by_length = (small.len() * 3 / 4).div_ceil(3_000) as u32;
    assert_eq!((found[0], found[59]), (900, by_length));
    // A decompression bomb.
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&b"/Type/Page ".repeat(150_000)).unwrap();
    let bomb = [b"%PDF-1.5 /ObjStm stream\n".as_slice(), &encoder.finish().unwrap()].concat();
    assert_eq!(pages(&bomb), 1_000);
}

fn wav(rate: u32, samples: u32, frame: u16, sound: usize) -> Vec<u8> {
    let mut wav = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(samples.to_le_bytes());
    wav.extend(rate.to_le_bytes());
    wav.extend(frame.to_le_bytes());
    wav.extend(b"\x10\0data\xff\xff\xff\xff");
    wav.resize(wav.len() + sound, 0);
    wav
}

fn lasts(bytes: &[u8], format: &str) -> u64 {
    audio::milliseconds(&STANDARD.encode(bytes), format)
}

#[test]
fn audio_length_follows_the_number_of_bytes() {
    let about = |milliseconds: u64, expected: u64| {
        assert!(
            (expected..=expected + expected / 50 + 15).contains(&milliseconds),
            "{milliseconds}, {expected}"
        );
    };
    about(lasts(&wav(32_000, 16_000, 2, 320_000), "wav"), 10_000);
    // The slower of two contradicting rates, and an impossible rate.
    about(lasts(&wav(u32::MAX, 16_000, 2, 320_000), "wav"), 10_000);
    about(lasts(&wav(u32::MAX, u32::MAX, u16::MAX, 1_536_000), "wav"), 1_000);
    about(lasts(&wav(0, 0, 0, 40_000), "wav"), 10_000);
    about(lasts(b"RIFF\0\0\0\0WAVEdata", "wav"), 4);
    // 128 kbit/s at 44,100: 417 bytes, 26 ms. 32 kbit/s: 104 bytes.
    let fast = [&[0xff, 0xfb, 0x90, 0x00][..], &[0; 413]].concat();
    let slow = [&[0xff, 0xfb, 0x10, 0x00][..], &[0; 100]].concat();
    let tag = [b"ID3\x04\0\0\0\0\x07\x68".as_slice(), &[0xff; 1000]].concat();
    about(lasts(&fast.repeat(100), "mp3"), 2_612);
    about(lasts(&[&tag, &fast.repeat(100)[..]].concat(), "mp3"), 2_612);
    about(lasts(&[fast.clone(), slow.repeat(100)].concat(), "mp3"), 2_638);
    // Bytes that are not audio count at the lowest rate.
    about(lasts(&[fast, vec![0; 40_000]].concat(), "mp3"), 10_026);
    about(lasts(&[1; 48_000], "pcm16"), 1_000);
    about(lasts(&[1; 8_000], "g711_ulaw"), 1_000);
    about(lasts(&[1; 4_000], "ogg"), 1_000);
}

#[test]
fn file_types_come_from_bytes_and_names() {
    let picture = PartSize::Medium(Medium::Image { width: 8, height: 9, detail: Detail::Auto });
    let unseen = PartSize::Medium(Medium::Image { width: 0, height: 0, detail: Detail::Auto });
    let (png, pdf) = (png(8, 9), plain_pdf(3));
    let one = |data: &str, name: &str| file(Some(data), Some(name));
    assert_eq!(one(&url("image/png", &png), ""), picture);
    assert_eq!(one(&url("application/octet-stream", &png), "x"), picture);
    assert_eq!(one(&STANDARD.encode(&png), "x.pdf"), picture);
    assert_eq!(one(&url("application/pdf", &pdf), ""), PartSize::Medium(Medium::Pages(3)));
    assert_eq!(image(&url("image/png", &pdf), Detail::High), PartSize::Medium(Medium::Pages(3)));
    assert_eq!(one(&STANDARD.encode(b"\n%PDF- /Type/Page "), "x.PDF"), PartSize::Medium(Medium::Pages(1)));
    // A provider reads a file of a text type as text.
    let text = [b"GIF89a\x01\0\x01\0".as_slice(), &[b'x'; 2_990]].concat();
    assert_eq!(one(&url("text/plain", &text), ""), PartSize::Bytes(3_000));
    assert_eq!(one(&STANDARD.encode(&text), "x.txt"), PartSize::Bytes(3_000));
    assert_eq!(image(&url("text/plain", &text), Detail::Auto), PartSize::Bytes(3_000));
    assert_eq!(one(&STANDARD.encode(b"PK\x03\x04 unknown"), "x.docx"), PartSize::Bytes(12));
    assert_eq!(
        one(&url("audio/mpeg", &[0; 4_002]), ""),
        PartSize::Medium(Medium::Audio { milliseconds: 1_001 })
    );
    assert_eq!(
        one(&url("video/mp4", &[0; 25_002]), ""),
        PartSize::Medium(Medium::Video { milliseconds: 1_001 })
    );
    // Content that only the provider can read.
    assert_eq!(file(Some("https://example.com/a.PNG?x=1"), None), unseen);
    assert_eq!(file(None, Some("a.jpeg")), unseen);
    assert_eq!(file(Some("https://example.com/a"), None), PartSize::Medium(Medium::Pages(20)));
    assert_eq!(file(None, None), PartSize::Medium(Medium::Pages(20)));
    assert_eq!(image("https://example.com/a.png", Detail::Auto), unseen);
}

fn beside(content: &str, members: &str) -> PromptExtras {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]{members}}}"#);
    parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap().extras
}

#[test]
fn the_media_of_a_request_are_measured() {
    let text = beside(r#""hi""#, "");
    assert_eq!((text.frames, text.bytes, text.media.capacity()), (1, 0, 0));
    let (png, pdf) = (url("image/png", &png(640, 480)), url("application/pdf", &plain_pdf(2)));
    let wav = STANDARD.encode(wav(32_000, 16_000, 2, 32_000));
    let parts = [
        format!(r#"{{"type":"image_url","image_url":{{"url":"{png}","detail":"low"}}}}"#),
        r#"{"type":"image_url","image_url":{"url":"https://x.example/y","detail":"original"}}"#.to_owned(),
        format!(r#"{{"type":"image_url","image_url":{{"url":"{}"}}}}"#, png.replace('/', "\\/")),
        format!(r#"{{"type":"file","file":{{"filename":"a.pdf","file_data":"{pdf}"}}}}"#),
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"{wav}","format":"wav"}}}}"#),
        r#"{"type":"text","text":"hi"}"#.to_owned(),
    ];
    let found =
        beside(&format!("[{}]", parts.join(",")), r#","prediction":{"type":"content","content":"a\nb"}"#);
    let image = |width, height, detail| Medium::Image { width, height, detail };
    let [first, second, third, fourth, Medium::Audio { milliseconds }] = found.media[..] else {
        panic!("{found:?}")
    };
    assert_eq!(first, image(640, 480, Detail::Low));
    assert_eq!(second, image(0, 0, Detail::Original));
    assert_eq!((third, fourth), (image(640, 480, Detail::Auto), Medium::Pages(2)));
    assert!((1_000..1_010).contains(&milliseconds), "{milliseconds}");
    assert_eq!((found.frames, found.bytes), (1, 3));
    let parts = r#","prediction":{"type":"content","content":[{"type":"text","text":"ab"}]}"#;
    assert_eq!(beside(r#""hi""#, parts).bytes, 29);
}

proptest! {
    #[test]
    fn measuring_never_panics(
        mark in prop::sample::select(vec![
            &b""[..], b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xd8\xff\xe1", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X",
            b"RIFF\0\0\0\0WEBPVP8L", b"RIFF\0\0\0\0WAVEfmt ", b"ID3\x04\0\0", b"\xff\xfb\x90\0", b"BM",
            b"%PDF-1.5 /Type /ObjStm stream\n\x78\x9c", b"%PDF-1.5 /Linearized /N", b"\0\0\0\x18ftypheic",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..2_000),
        cut in 0_usize..3_000,
        noise in ".{0,20}",
    ) {
        let mut data = STANDARD.encode([mark, &rest].concat());
        data.truncate(cut);
        data.insert_str(data.len() / 2, &noise);
        for media_type in ["image/png", "application/pdf", "audio/mp3", "video/mp4", "", "text/plain"] {
            let measured = file(Some(&format!("data:{media_type};base64,{data}")), Some(&noise));
            if let PartSize::Medium(Medium::Pages(pages)) = measured {
                prop_assert!((1..=1_000).contains(&pages));
            }
        }
        file(Some(&data), Some(&noise));
        audio::milliseconds(&data, &noise);
        pages_of(&data);
    }

    #[test]
    fn base64_is_decoded_as_the_library_does(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        room in 1_usize..50,
    ) {
        let text = STANDARD.encode(&bytes);
        prop_assert_eq!(Decoded::of(&text).collect::<Vec<u8>>(), &bytes[..]);
        let (mut decoded, mut all, mut space) = (Decoded::of(&text), Vec::<u8>::new(), vec![0_u8; room]);
        loop {
            let filled = decoded.fill(&mut space);
            all.extend(&space[..filled]);
            if filled < room {
                break;
            }
        }
        prop_assert_eq!(all, bytes);
    }
}
