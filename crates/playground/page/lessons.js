// Six lessons. A step says what to expect, does it, and says what came of it.
// A pseudo-SLC cache of free blocks, as large drives with TLC flash have it.
const SLC = [['slc.size', '25 GB'], ['slc.space', 'dynamic'], ['slc.bits', '3'], ['slc.program', '200us'], ['slc.page_read', '30us']];
const LESSONS = (() => {
  const mb = (rate) => `${(rate / 1e6).toFixed(0)} MB/s`;
  const read = (app) => {
    const { bytes, rate, pages } = app.read();
    const before = app.memory.rate;
    app.memory.rate = before || rate;
    const beside = before ? ` That is ${(before / rate).toFixed(1)} times slower than the first time.` : '';
    return `${(bytes / 1e6).toFixed(0)} MB at ${mb(rate)}; the drive senses ${pages.toFixed(1)} flash pages for each 128 KiB.${rate > before * .9 ? (before ? ' That is as fast as the first time.' : '') : beside}`;
  };
  const cut = (app) => {
    const { answered, lost, broken, seconds } = app.cut();
    const promised = broken ? ` ${broken} of them had been flushed!` : ' None of them had been flushed.';
    return lost === 0
      ? `${answered} units were written and answered. None is lost.`
      : `${answered} units were written and answered. ${lost} of them are lost.${promised} The drive was ready again after ${(seconds * 1e3).toFixed(0)} ms.`;
  };
  return [
    {
      title: 'Internal fragmentation',
      intro: 'A drive never overwrites in place: new data goes to the block that is open at that moment. So random writes scatter a file inside the drive. The file system still sees one piece.',
      steps: [
        { text: 'Fill a drive from its first unit to its last. Each flash page then holds four neighbours.', button: 'Fill a drive', act: (app) => { app.make({ profile: 'toshiba-xg5', start: 'filled' }, {}, { running: false }); app.colour('valid'); return 'The drive is full. Every block holds valid data only.'; } },
        { text: 'Read a file, an eighth of the drive, in order.', button: 'Read the file', act: read },
        { text: 'Write 4 KiB at random places. Blocks lose the units that are overwritten, and garbage collection copies what is left.', button: 'Write at random', act: (app) => { app.colour('valid'); app.run(300e3); return 'Wait a few seconds, until half of the drive has been written. Then read again.'; } },
        { text: 'Read the file again. Many of its units now lie alone on pages all over the drive.', button: 'Read it again', act: (app) => { app.pause(); return read(app); } },
        { text: 'Write the file anew, in order, and read it once more.', button: 'Write it anew and read it', act: (app) => { app.pause(); app.rewrite(); return read(app); } },
      ],
      full: 'ssdlab run fragmentation sim:toshiba-xg5',
      means: 'For your own disk, give a directory on it instead of sim:toshiba-xg5.',
    },
    {
      title: 'TRIM',
      intro: 'When you delete a file, the file system marks its space as free. The drive learns of it only by TRIM. Until then it keeps copying data that nobody needs.',
      steps: [
        { text: 'A full drive in its steady state. Files use three quarters of it; the last quarter was deleted, and the drive was not told.', button: 'Write without TRIM', act: (app) => { app.make({ start: 'steady' }, { used: .75 }, { pace: 1e6 }); app.colour('valid'); return 'Write amplification stays high, as if the drive were full. For stale data there is no closed form.'; } },
        { text: 'Tell the drive which units are free, as fstrim does.', button: 'Send TRIM', act: (app) => { app.run(1e6); app.trim(); return 'Every block has lost about a quarter of its valid units. Write amplification falls to the closed form: to theory a drive with trimmed space is a drive with more spare area.'; } },
        { text: 'Now try the knob “Data on the drive”. More free space is more room for garbage collection, if the drive knows of it.', button: 'Use half of the drive', act: (app) => { app.setKnob('used', .5); app.trim(); return 'Half of the drive is trimmed now: almost nothing is left to copy.'; } },
      ],
      full: 'ssdlab run trim-check /mnt/ssd\nssdlab run overprovision sim:samsung-840-pro-512',
      means: 'The first asks whether TRIM reaches your drive. The second measures what it is worth.',
    },
    {
      title: 'Spare area',
      intro: 'A drive has more flash than it shows. This over-provisioning lets blocks lose valid units before they are collected. The less of it there is, the more must be copied for each write.',
      steps: [
        { text: 'A drive with 7 % of its flash as spare area, full, written at random for a long time.', button: 'Take 7 %', act: (app) => { app.make({ start: 'steady', spare: 7 }, {}, { pace: 1e6 }); app.colour('valid'); return 'Seven or eight units are programmed for each one that the host writes. Theory says the same.'; } },
        { text: 'The same flash, with 28 % of it as spare area.', button: 'Take 28 %', act: (app) => { app.make({ start: 'steady', spare: 28 }, {}, { pace: 1e6 }); return 'Write amplification is near 2, and the drive writes several times as fast.'; } },
        { text: 'Collect the oldest block instead of the emptiest (FIFO).', button: 'Collect FIFO', act: (app) => { app.make({ start: 'steady', spare: 7, policy: 'fifo' }, {}, { pace: 1e6 }); app.colour('age'); return 'FIFO copies more than greedy collection. Here, too, the closed form fits.'; } },
        { text: 'Write 90 % of the time to 10 % of the data.', button: 'Write hot and cold data', act: (app) => { app.setKnob('skew', .9); return 'Blocks mix hot and cold units, and the cold ones are copied over and over.'; } },
      ],
      full: 'ssdlab advise sim:toshiba-xg5 --spare 7%,15%,28%',
      means: 'Speed, write amplification and life of the flash for each, and from where on more brings little.',
    },
    {
      title: 'The write cliff',
      intro: 'Many drives program new data with one bit a cell (SLC), which is fast, and fold it into three bits later. When that cache is full, speed falls off a cliff.',
      steps: [
        { text: 'A new drive with an SLC cache of 25 GB, here a 64th of that. Write to it in order, 128 KiB at a time.', button: 'Write to the cache', act: (app) => { app.make({ start: 'new', extra: SLC }, { request: 32, sequential: true }, { pace: 30e3 }); app.colour('state'); return 'Violet blocks are the cache. After three or four seconds it is full: “Host writes” falls to less than half.'; } },
        { text: 'Leave the drive alone for a minute of its time. It folds the cache into blocks with three bits a cell.', button: 'Rest a minute', act: (app) => { app.rest(60); app.run(30e3); return 'The cache is empty again, and writing is fast again. What was in it has been programmed twice.'; } },
        { text: 'Write without rest. The cache fills once and then does not help.', button: 'Write on and on', act: (app) => { app.run(300e3); return 'The curve stays low: without rest the drive has no time to fold.'; } },
      ],
      full: "ssdlab run random-write 'sim:generic-tlc,slc.size=25GB,slc.space=dynamic,slc.bits=3,slc.program=200us,slc.page_read=30us'",
      means: 'Four block sizes, each on a new drive, for hours of the drive’s time.',
    },
    {
      title: 'Flush and power loss',
      intro: 'A write is answered when it is in the drive’s RAM. Only a flush promises that it is on the flash. Capacitors (power-loss protection) make that promise cheap.',
      steps: [
        { text: 'One request at a time, without a flush.', button: 'Write without flushes', act: (app) => { app.make({ start: 'steady', spare: 28 }, { depth: 1 }, { pace: 100e3 }); app.colour('valid'); return 'A write takes as long as the command and the transfer to RAM.'; } },
        { text: 'Pull the plug on a small drive of this kind. Is what it answered still there?', button: 'Cut the power', act: cut },
        { text: 'Flush after each write, as a database does at each commit.', button: 'Flush each write', act: (app) => { app.setKnob('flush', 1); return 'Each flush programs the flash, and pads the program unit with empty units: write amplification rises.'; } },
        { text: 'Pull the plug again.', button: 'Cut the power again', act: cut },
        { text: 'A drive with capacitors saves its buffer when power fails.', button: 'Add power-loss protection', act: (app) => { app.make({ start: 'steady', spare: 28, plp: true }, { depth: 1, flush: 1 }, { pace: 100e3 }); return 'A flush has nothing left to do. Press “Cut the power” among the knobs: nothing is lost.'; } },
      ],
      full: 'ssdlab run barrier sim:goodram-c50-120\nssdlab power-cut explore sim:toshiba-xg5',
      means: 'The first measures what making writes durable costs. The second tries every power cut of short histories.',
    },
    {
      title: 'RAID without TRIM',
      intro: 'Some RAID arrays do not pass TRIM on, and the first sync of a mirror writes every unit of its drives. The drives then take all of their space for data, for good. Both halves of a mirror get the same writes: the picture shows one.',
      steps: [
        { text: 'A mirror (RAID 1) after its first sync. Files use three quarters of it.', button: 'Build the mirror', act: (app) => { app.make({ start: 'steady', array: true }, { used: .75 }, { pace: 1e6 }); app.colour('valid'); return 'To the drive everything is valid. Write amplification stays high.'; } },
        { text: 'Send TRIM to the array.', button: 'Send TRIM', act: (app) => { app.trim(); return 'The array drops it. Nothing changes inside.'; } },
        { text: 'Erase both drives (secure erase), leave a quarter of each unpartitioned, and build the mirror on the rest.', button: 'Leave a quarter unpartitioned', act: (app) => { app.make({ start: 'steady', array: true, erased: true }, { used: .75 }, { pace: 1e6 }); return 'The unpartitioned quarter was never written, so it is spare area. Write amplification is near 2 without any TRIM.'; } },
      ],
      full: 'ssdlab run overprovision sim:samsung-840-pro-512',
      means: 'One drive without and with TRIM, two in RAID 1, and the same with over-provisioning.',
    },
  ];
})();
